"""The report: what its page says of which runs, that no text can break out of it, and how large it grows."""

import csv
import dataclasses
import html.parser
import json

import numpy as np
import pytest
from hand_made import NANO, SOUND
from report_worlds import (
    DOUBTFUL,
    HOSTILE,
    curve,
    fitted,
    keep_all,
    material,
    record,
    stored,
    world,
)
from test_cli import run

import ullage
from ullage.errors import BadInput
from ullage.material import Material
from ullage.observations import observe
from ullage.page import embedded, page
from ullage.sections import sections
from ullage.shipped import shipped_records
from ullage.store import KEPT, open_store
from ullage.verbs.report import report
from ullage.verdict import doubts, headline

FIVE_MEGABYTES = 5_000_000
# What a page of ours is made of; a hostile text that broke out would bring others.
ALLOWED = {
    *("html", "head", "meta", "title", "link", "style", "body", "header", "nav", "main", "footer", "section"),
    *("h1", "h2", "h3", "p", "a", "b", "i", "span", "strong", "code", "pre", "ol", "li", "dl", "dt", "dd"),
    *("div", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details"),
    *("summary", "button", "form", "fieldset", "legend", "label", "select", "option", "input", "output"),
    *("script", "noscript", "svg", "g", "path", "use", "defs", "clippath", "rect", "text"),
}


class Reader(html.parser.HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text.append(data)


def text_of(found):
    return " ".join("".join(Reader(page(found)).text).split())


# ── what it says ──────────────────────────────────────────────────────────────────────────────────


def test_a_page_has_a_section_for_everything_that_is_known():
    records = [
        *world(),
        record("a", phase="search", skill=0.5),
        record("b", status="failed", reason="out of luck"),
    ]
    found = material(records, curves=curve(records[0].run_id), made={"command": "ullage report"})
    said = text_of(found)

    assert [section.key for section in sections(found)] == [
        "capacity",
        "boundaries",
        "learning",
        "search",
        "diagnosis",
        "belief",
        "failures",
        "costs",
        "made",
        "cite",
    ]
    assert "out of luck" in said
    assert "ullage report" in said
    assert "arXiv:2408.14332" in said


def test_the_verdict_is_one_sentence_with_its_interval_and_the_budget():
    sentence = headline(material())

    assert sentence.startswith("nano fills ")
    assert "% [" in sentence
    assert "of its bandwidth (input bits); C is " in sentence
    assert sentence.endswith("on the typical one of 3 families.")
    assert headline(material()) in text_of(material())


def test_what_cannot_be_trusted_is_said_on_top_and_looks_different():
    found = material(diagnostics=DOUBTFUL)

    assert "not to be trusted" in doubts(found)[0]
    assert 'class="doubtful"' in page(found).split("</h1>")[0]
    assert 'class="doubtful"' not in page(material()).split("</h1>")[0]
    assert "fills" not in headline(found)  # no share that a fit without trust has told


def test_the_page_is_about_the_model_that_is_asked_for():
    found = material(focus="small")

    assert headline(found).startswith("small ")
    assert found.learners[0].model_id == "small"


def test_runs_of_another_effort_are_counted_as_left_out():
    records = [*world(), record("long", step_limit=9)]
    said = text_of(material(records))

    assert "another effort" in said
    assert "another effort" not in text_of(material())


def test_one_of_several_efforts_can_be_chosen(tmp_path):
    short = [dataclasses.replace(one, run_id=f"short {one.run_id}", step_limit=500) for one in world()]
    store = tmp_path / "store"
    with open_store(store) as opened:
        for one in [*world(), *short]:
            opened.append(one, ())
    for some in (world(), short):
        keep_all(observe(some), store / KEPT)
    found = report(store=store, report=tmp_path / "page.html", steps=500)
    said = (tmp_path / "page.html").read_text("utf-8")
    usual = report(store=store, report=tmp_path / "usual.html")

    assert found["effort"]["step_limit"] == 500
    assert usual["effort"]["step_limit"] == 2000
    assert "--steps 500" in said
    # `ullage predict` would take the other effort, so its command would give another number.
    assert ("data-where" in said, "data-where" in (tmp_path / "usual.html").read_text("utf-8")) == (
        False,
        True,
    )


def test_a_store_of_failures_says_so_and_why(tmp_path):
    store = tmp_path / "store"
    with open_store(store) as opened:
        opened.append(record("a", status="failed", reason="the disk burnt", score=None), ())
    found = report(store=store, report=tmp_path / "page.html")

    assert found["verdict"] == "Nothing can be told yet: none of 1 run is evidence of capacity."
    assert not found["trusted"]
    assert "the disk burnt" in (tmp_path / "page.html").read_text("utf-8")


def test_an_empty_store_says_what_to_do(tmp_path, capsys):
    code, out, _ = run(capsys, "report", "--store", tmp_path / "none", "--report", tmp_path / "page.html")
    said = "".join(Reader((tmp_path / "page.html").read_text("utf-8")).text)

    assert code == 1
    assert "`ullage measure` makes runs" in out
    assert "ullage measure makes some" in said
    assert "ullage report --shipped" in said


def test_a_table_made_elsewhere_has_a_page(tmp_path):
    rows = [
        {"task": "sorting", "demand_bits": 2.0**bits, "demand_notion": "context", "accuracy": float(bits < 4),
         "chance": 0.0, "layers": 2, "heads": 4, "d_head": 8, "precision_bits": 32, "level": bits}
        for bits in range(1, 8) for _ in range(3)
    ]  # fmt: skip
    path = tmp_path / "theirs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    from ullage.imported import read_table

    keep_all(read_table(path), tmp_path / "kept")
    found = report(runs=path, keep=tmp_path / "kept", report=tmp_path / "page.html")

    assert (found["source"], found["families"]) == ("file", ["sorting"])
    assert "sorting" in (tmp_path / "page.html").read_text("utf-8")


def test_two_models_of_one_name_are_told_apart_by_their_shape():
    """A table made elsewhere may call all its models alike."""
    models = [dataclasses.replace(NANO, model_id="mine", layers=layers) for layers in (1, 2)]
    found = material(world(models=models))
    said = text_of(found)

    assert [learner.name.partition(",")[0] for learner in found.learners] == [
        "mine (layers=1",
        "mine (layers=2",
    ]
    assert "mine (layers=2, heads=4" in said


def test_curves_are_those_next_to_the_boundary(tmp_path):
    records = world({"parity": 3.0}, (NANO,))
    store = stored(tmp_path / "store", records, {one.run_id: curve(one.run_id) for one in records})
    report(store=store, report=tmp_path / "page.html", figures=tmp_path / "figures")
    text = (tmp_path / "figures" / "learning_curves.csv").read_text()
    drawn = list(csv.DictReader(text.splitlines()))
    levels = sorted({one.demand_bits: one.level for one in records}.items())
    around = {level for demand, level in levels if 2.0**2.4 < demand < 2.0**3.6}

    assert {int(row["level"]) for row in drawn} <= around
    assert 1 <= len({row["level"] for row in drawn}) <= 2


# ── the verb ──────────────────────────────────────────────────────────────────────────────────────


def test_the_verb_prints_the_promised_document(tmp_path, capsys):
    store = stored(tmp_path / "store", world())
    code, out, err = run(capsys, "report", "--store", store, "--report", tmp_path / "page.html", "--json")
    document = json.loads(out)

    assert code == 0
    assert list(document) == [
        "verdict",
        "doubts",
        "model",
        "effort",
        "families",
        "budgets",
        "models",
        "capacity",
        "runs",
        "evidence",
        "trusted",
        "report",
        "bytes",
        "figures",
        "source",
        "store",
    ]
    assert document["runs"] == document["evidence"] == len(world())
    assert document["bytes"] == (tmp_path / "page.html").stat().st_size
    assert "fit 2 of 2" in err


def test_a_terminal_sees_the_same_verdict(tmp_path, capsys):
    store = stored(tmp_path / "store", world())
    path = tmp_path / "page.html"
    _, out, _ = run(capsys, "report", "--store", store, "--report", path)
    told = report(store=store, report=path)
    said = " ".join("".join(Reader(path.read_text("utf-8")).text).split())

    assert told["verdict"] in " ".join(out.split())
    assert told["verdict"] in said
    assert "bandwidth 1024" in out


def test_a_fit_that_cannot_be_trusted_is_part_of_what_was_asked(tmp_path, capsys):
    store = tmp_path / "store"
    with open_store(store) as opened:
        for one in world():
            opened.append(one, ())
    keep_all(observe(world()), store / KEPT, DOUBTFUL)
    code, out, _ = run(capsys, "report", "--store", store, "--report", tmp_path / "page.html")

    assert code == 1
    assert "not to be trusted" in out


def test_figures_are_written_as_svg_pdf_and_csv(tmp_path):
    store = stored(tmp_path / "store", world())
    found = report(store=store, report=tmp_path / "page.html", figures=tmp_path / "figures")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    stems = {name.partition(".")[0] for name in names}

    assert len(found["figures"]) == len(names) == 3 * len(stems) >= 3 * 6
    assert (tmp_path / "figures" / "skill_curves.pdf").read_bytes().startswith(b"%PDF")
    assert b"<svg" in (tmp_path / "figures" / "skill_curves.svg").read_bytes()
    assert "demand_bits" in (tmp_path / "figures" / "skill_curves.csv").read_text()


def test_the_same_store_gives_the_same_page(tmp_path):
    store = stored(tmp_path / "store", world())
    pages = []
    for _ in "ab":
        report(store=store, report=tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text("utf-8")
        pages.append([line for line in text.splitlines() if "<dt>made</dt>" not in line])

    assert pages[0] == pages[1]


def test_measure_writes_the_page_of_what_it_measured(tmp_path, capsys):
    flags = ("--levels", "5", "--steps", "20", "--d-model", "8", "--heads", "2", "--d-ff", "16")
    study = ("--protocol", "grid", "--seeds", "1", "--trials", "0", "--workers", "1")
    measure = ("measure", "parity", *flags, *study, "--store", tmp_path / "store", "--json")
    run(capsys, *measure)
    keep_all(observe(open_store(tmp_path / "store").read().records.values()), tmp_path / "store" / KEPT)
    code, out, _ = run(capsys, *measure, "--report", tmp_path / "page.html")

    assert code == 0
    assert json.loads(out)["report"] == str(tmp_path / "page.html")
    assert json.loads(out)["new_runs"] == 0
    assert "heads=2" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"runs": "x.csv", "shipped": True}, "give one of them"),
        ({"model": "huge"}, "choose one of nano, small"),
        ({"report": "/dev/null/page.html"}, "choose a place"),
        ({"figures": "/dev/null/figures"}, "choose another folder"),
    ],
)
def test_bad_requests_are_told_in_a_sentence(tmp_path, arguments, told):
    store = stored(tmp_path / "store", world())
    with pytest.raises(BadInput, match=told):
        report(**{"store": store, "report": tmp_path / "page.html", **arguments})


def test_the_function_of_the_package_is_the_verb(tmp_path):
    assert ullage.report(store=tmp_path / "none", report=tmp_path / "page.html")["runs"] == 0


def test_a_calibration_is_made_once_and_shown_again(tmp_path):
    """Two levels, so two fits: with a sampler, for there is nothing else that calibrates."""
    records = [one for one in world({"parity": 3.0}, (NANO,)) if one.demand_bits in {2.0, 32.0}]
    store = stored(tmp_path / "store", records)
    pages = []
    for asked in (False, True, False):
        report(store=store, report=tmp_path / "page.html", calibrate=asked)
        pages.append("Held out by level: of 6 runs" in (tmp_path / "page.html").read_text("utf-8"))

    assert pages == [False, True, True]


# ── what users write ──────────────────────────────────────────────────────────────────────────────


def hostile_material():
    records = [
        dataclasses.replace(one, task=HOSTILE, reason=HOSTILE, study=HOSTILE, host=HOSTILE, device=HOSTILE)
        for one in world({"parity": 3.0}, (dataclasses.replace(NANO, model_id=f"x:{HOSTILE}"),))
    ]
    failed = dataclasses.replace(records[0], run_id="failed", status="failed")
    trial = dataclasses.replace(records[0], run_id="trial", phase="search")
    return material(
        [*records, failed, trial],
        curves=curve(records[0].run_id),
        importances=({"family": HOSTILE, "knob": HOSTILE, "share": 1.0, "trials": 9},),
        made={"command": HOSTILE, "where": HOSTILE, "seeds": HOSTILE},
        form={"every": 1, "text": HOSTILE},
    )


def test_no_text_of_a_user_becomes_markup():
    read = Reader(page(hostile_material()))
    scripts = [tag for tag in read.tags if tag == "script"]

    assert set(read.tags) <= ALLOWED
    assert len(scripts) == 2
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert "49" not in page(Material(made={"command": "{{7*7}}"})).split("<pre>")[1].split("</pre>")[0]


def test_a_hostile_document_comes_back_from_the_page_as_it_was():
    document = {"text": HOSTILE, "list": [HOSTILE]}

    assert "</script" not in embedded(document)
    assert json.loads(embedded(document)) == document


def test_hostile_names_are_shown_as_they_are():
    assert "alert(1)" in "".join(Reader(page(hostile_material())).text)


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


def many_runs(count):
    """So many runs of five families on four models."""
    families = {f"family {number}": 3.0 + number for number in range(5)}
    models = [dataclasses.replace(NANO, model_id=f"model {n}", d_head=8 * 2**n) for n in range(4)]
    each = count // (len(families) * len(models) * 7)
    return [
        dataclasses.replace(one, run_id=f"{place:06d}")
        for place, one in enumerate(world(families, models, seeds=each + 1))
    ][:count]


def test_a_page_of_ten_thousand_runs_is_smaller_than_five_megabytes(tmp_path):
    """`benchmarks/report.py` tells how long it takes to write."""
    observations = observe(many_runs(10_000))
    posterior = fitted(observations)
    draws = {name: np.concatenate([values] * 5) for name, values in posterior.draws.items()}
    full = dataclasses.replace(posterior, draws=draws, diagnostics=SOUND)
    from ullage.form import form_of

    fits = {"nominal": full, "input": full}
    records = tuple(many_runs(10_000))
    found = Material(full, {"input": full}, observations, records, form=form_of(fits, {}, {}, {}))

    assert full.count == 2000
    assert len(records) == 10_000
    assert 500_000 < len(page(found).encode()) < FIVE_MEGABYTES


def test_the_shipped_runs_have_a_page(tmp_path):
    keep_all(observe(shipped_records()), tmp_path / KEPT)
    found = report(shipped=True, keep=tmp_path / KEPT, report=tmp_path / "page.html")

    assert found["source"] == "shipped"
    assert found["runs"] == len(shipped_records())
    assert "nothing was trained here" in " ".join(found["doubts"])
    assert found["bytes"] < FIVE_MEGABYTES
