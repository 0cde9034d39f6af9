"""The page in a browser: it asks nobody, predicts as the command does, and can be read and used by all.

Chromium and its driver are needed (`apt-get install chromium chromium-driver`); without them these tests
fail, for a page that nobody has opened has not been tested.
"""

import collections
import dataclasses
import json
import shlex
import shutil

import pytest
from hand_made import NANO
from report_worlds import DOUBTFUL, HOSTILE, curve, fitted, keep_all, material, mixed, stored, world
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from test_predict_verb import table

from ullage.form import form_of
from ullage.imported import read_table
from ullage.observations import observe
from ullage.page import page, write
from ullage.prediction import predict as predicted
from ullage.shapes import sizes_of
from ullage.shipped import shipped_records
from ullage.store import KEPT, open_store
from ullage.verbs.predict import predict, understood
from ullage.verbs.report import report

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
LIGHT_AND_DARK = pytest.mark.parametrize("theme", ["light", "dark"])
CONTRAST = 4.5  # WCAG 2, level AA, for text of any size
SMALLEST_LETTER = 9.5  # pixels, of figures on a phone
PHONE = 375

# Every element with text of its own, its colour, and that of the first background behind it.
SEEN = """
const over = (top, under) => top.slice(0, 3).map((part, k) => part * top[3] + under[k] * (1 - top[3]));
const parts = (text) => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
const unseen = ["SCRIPT", "NOSCRIPT", "OPTION", "STYLE"];
const found = [];
for (const one of document.querySelectorAll("body *")) {
  const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const box = one.getBoundingClientRect();
  if (!own || unseen.includes(one.tagName) || !box.width || box.left < -500) continue;
  const style = getComputedStyle(one), drawn = one instanceof SVGElement;
  let back = [255, 255, 255, 1];
  for (let up = one; up; up = up.parentElement) {
    const seen = parts(getComputedStyle(up).backgroundColor);
    if (seen[3] > 0) { back = seen; break; }
  }
  const text = one.textContent.trim().slice(0, 40);
  const colour = parts(drawn ? style.fill : style.color);
  const frame = one.ownerSVGElement;
  const scale = drawn ? frame.getBoundingClientRect().width / frame.viewBox.baseVal.width : 1;
  const size = parseFloat(style.fontSize) * scale;
  found.push({ text, colour: over(colour, back), back: back.slice(0, 3), size, drawn });
}
return found;
"""


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = shutil.which("chromedriver")
    assert driver, "chromedriver is missing: apt-get install chromium chromium-driver"
    found = webdriver.Chrome(service=Service(driver), options=options)
    yield found
    found.quit()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The page of the shipped runs, and the folder that keeps the fits that it shows."""
    folder = tmp_path_factory.mktemp("shipped")
    keep_all(observe(shipped_records()), folder / "store" / KEPT)
    report(shipped=True, keep=folder / "store" / KEPT, report=folder / "page.html")
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A page on which whatever a user may name has a hostile name."""
    folder = tmp_path_factory.mktemp("hostile")
    model = dataclasses.replace(NANO, model_id=f"x:{HOSTILE}")
    records = [
        dataclasses.replace(one, task=f"{one.task} {HOSTILE}", host=HOSTILE, reason=HOSTILE, study=HOSTILE)
        for one in world({"parity": 3.0, "copy": 5.0}, (model, NANO))
    ]
    store = stored(folder / "store", records, {records[9].run_id: curve(records[9].run_id)})
    report(store=store, report=folder / "page.html")
    return folder


def opened(browser, folder, width=1000, theme="light"):
    """Open a page as a screen of some width shows it; its messages and requests since then."""
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    media = {"media": "", "features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get(f"file://{folder}/page.html")
    return browser


def requests_of(browser):
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [
        one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"
    ]


# ── it stands alone ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("which", ["shipped", "hostile"])
def test_nothing_is_requested_and_no_error_is_told(which, browser, request):
    folder = request.getfixturevalue(which)
    opened(browser, folder)
    for summary in browser.find_elements("tag name", "summary"):
        summary.send_keys(Keys.ENTER)
    requested = {url for url in requests_of(browser) if not url.startswith("data:")}

    assert requested == {f"file://{folder}/page.html"}
    assert browser.get_log("browser") == []


def test_a_hostile_name_runs_nothing_and_is_shown(browser, hostile):
    opened(browser, hostile)
    shown = browser.find_element("tag name", "body").text

    assert "alert(1)" in shown
    assert browser.find_elements("css selector", "img, [onerror]") == []
    assert len(browser.find_elements("tag name", "script")) == 2


def test_a_script_that_was_smuggled_in_would_not_run(browser, shipped, tmp_path):
    """The page allows its own script by its hash, and no other."""
    text = (shipped / "page.html").read_text("utf-8")
    smuggled = text.replace("<main", "<script>document.title = 'broken'</script><main", 1)
    (tmp_path / "page.html").write_text(smuggled, "utf-8")
    opened(browser, tmp_path)

    assert browser.title.startswith("ullage")
    assert "Content Security Policy" in browser.get_log("browser")[0]["message"]


# ── it predicts ───────────────────────────────────────────────────────────────────────────────────

# Of each question: what is chosen for it on the page, and what is different from the model nano.
QUESTIONS = {
    "a known family on a known model": ("parity, input bits", 7.0, {}),
    "far below its boundary": ("modulo, answer bits", 3.4, {}),
    "a level beyond what was tried": ("modulo, answer bits", 40.0, {}),
    "another known model": ("modulo, answer bits", 6.0, {"layers": 1}),
    "attention only": ("memorise, storage bits", 30000.0, {"d_ff": 0}),
    "a known family on a new model": ("copy, context bits", 30.0, {"d_model": 48, "d_ff": 96}),
    "a deeper model": ("induction, context bits", 20.0, {"layers": 3}),
    "more precision": ("parity, input bits", 8.0, {"precision": "f64"}),
    "a storing family on a large model": ("memorise, storage bits", 2e5, {"d_model": 128, "d_ff": 512}),
    "a new task on a known model": ("a task that nobody has trained, context bits", 40.0, {}),
    "a new task on a new model": (
        "a task that nobody has trained, input bits",
        12.0,
        {"d_model": 64, "heads": 8},
    ),
    "new bits of storage": ("a task that nobody has trained, storage bits", 5e4, {}),
    "new bits of storage on a new model": (
        "a task that nobody has trained, storage bits",
        8e4,
        {"layers": 1, "d_model": 96, "d_head": 4, "d_ff": 30},
    ),
    "new bits of answers in few bits a number": (
        "a task that nobody has trained, answer bits",
        5.0,
        {"precision": "bf16"},
    ),
}
SHAPE = {"layers": 2, "heads": 4, "d_head": 8, "d_model": 32, "d_ff": 128, "precision": "f32"}


def asked(browser, subject, bits, shape):
    """What the form answers."""
    choose = """
    const [subject, bits, shape] = arguments, form = document.querySelector("#fit");
    const set = (name, value, kind) => {
      form.elements[name].value = value;
      form.elements[name].dispatchEvent(new Event(kind, { bubbles: true }));
    };
    const options = [...form.elements.subject.options];
    set("subject", options.find((one) => one.textContent === subject).value, "change");
    for (const [name, value] of Object.entries(shape)) set(name, value, "input");
    set("bits", bits, "input");
    return { answer: JSON.parse(form.dataset.answer), command: form.querySelector(".command").textContent,
             word: form.querySelector(".word").textContent };
    """
    return browser.execute_script(choose, subject, bits, shape)


def from_the_command(subject, bits, shape, folder):
    """What `ullage predict` answers to the same question."""
    name = subject.split(",")[0]
    notion = subject.split()[-2]
    known = not name.startswith("a task")
    return predict(
        name if known else None,
        bits=bits,
        demand=None if known else notion,
        knobs={
            **shape,
            "d_head": 0 if shape["d_head"] * shape["heads"] == shape["d_model"] else shape["d_head"],
        },
        store=folder / "store",
    )


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_form_answers_as_the_command_does(question, browser, shipped):
    subject, bits, different = QUESTIONS[question]
    shape = {**SHAPE, **different}
    if "d_model" in different and "d_head" not in different:
        shape["d_head"] = shape["d_model"] // shape["heads"]
    opened(browser, shipped)
    told = asked(browser, subject, bits, shape)["answer"]
    expected = from_the_command(subject, bits, shape, shipped)

    for quantity in ("probability", "skill"):
        assert told[quantity] == pytest.approx(expected[quantity], abs=1e-3)
    if "storage bits" in subject or "nobody" in subject:  # what is not held against them needs no sizes
        assert told["parameters"] == expected["model"]["parameters"]
    assert told["binding_budget"] == expected["binding_budget"]
    assert told["extrapolating"] == expected["extrapolating"]


def test_questions_differ_in_their_answers(browser, shipped):
    """Were all of them nought or one, equality would tell little."""
    opened(browser, shipped)
    medians = [
        asked(browser, subject, bits, {**SHAPE, **different})["answer"]["probability"]["median"]
        for subject, bits, different in QUESTIONS.values()
    ]

    assert sum(0.02 < median < 0.98 for median in medians) >= 6


def test_the_command_that_is_shown_gives_the_number_that_is_shown(browser, shipped):
    opened(browser, shipped)
    told = asked(browser, "modulo, answer bits", 6.0, {**SHAPE, "layers": 1})
    words = shlex.split(told["command"])
    flags = dict(zip(words[3::2], words[4::2], strict=True))
    knobs = {name[2:].replace("-", "_"): value for name, value in flags.items() if name != "--bits"}
    numbers = {name: value if name == "precision" else int(value) for name, value in knobs.items()}
    expected = predict(words[2], bits=float(flags["--bits"]), knobs=numbers, store=shipped / "store")

    assert words[:2] == ["ullage", "predict"]
    assert told["answer"]["probability"] == pytest.approx(expected["probability"], abs=1e-3)


def test_runs_that_have_learned_or_not_are_predicted_too(browser, tmp_path):
    """No command asks a mixture yet; the function that it would call does."""
    records = world()
    posterior = mixed(fitted(observe(records)))
    notions = dict.fromkeys(posterior.conditions.families, "input")
    shapes = {"nano": {**SHAPE, "d_head": 0}}
    form = form_of({"nominal": posterior}, notions, shapes, sizes_of(notions))
    write(page(material(records, form=form)), tmp_path / "page.html")
    opened(browser, tmp_path)
    told = asked(browser, "parity, input bits", 9.0, SHAPE)["answer"]
    expected = predicted(posterior, *question_and_offer(9.0)).to_json()

    assert told["probability"] == pytest.approx(expected["probability"], abs=1e-3)
    assert told["skill"] == pytest.approx(expected["skill"], abs=1e-3)


def question_and_offer(bits):
    from hand_made import offer

    from ullage.prediction import Question

    return Question("parity", None, "input", bits, {"input": bits}), offer(NANO)


def test_more_draws_than_fit_on_a_page_are_thinned_and_the_page_says_so(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("ullage.form.LARGEST", 30_000)
    records = world()
    posterior = fitted(observe(records))
    notions = dict.fromkeys(posterior.conditions.families, "input")
    form = form_of({"nominal": posterior}, notions, {"nano": {**SHAPE, "d_head": 0}}, sizes_of(notions))
    write(page(material(records, form=form)), tmp_path / "page.html")
    opened(browser, tmp_path)
    told = asked(browser, "parity, input bits", 8.0, SHAPE)["answer"]
    expected = predicted(posterior, *question_and_offer(8.0)).to_json()

    assert form["every"] > 1
    assert told["probability"] == pytest.approx(expected["probability"], abs=0.1)
    assert f"one of {form['every']}" in browser.find_element("id", "predict").text


def test_a_model_of_which_a_table_tells_some_numbers_is_the_one_that_agrees_in_them(browser, tmp_path):
    path = table(tmp_path / "theirs.csv", {"sorting": 4.0, "reversing": 5.0})
    keep_all(read_table(path), tmp_path / "store" / KEPT)
    report(runs=path, keep=tmp_path / "store" / KEPT, report=tmp_path / "page.html")
    opened(browser, tmp_path)
    trained = json.loads(browser.find_element("id", "fit").get_attribute("data-answer"))
    told = asked(browser, "sorting, input bits", 20.0, SHAPE)["answer"]
    wider = asked(browser, "sorting, input bits", 20.0, {**SHAPE, "d_head": 16})["answer"]
    expected = [
        predict("sorting", bits=20.0, runs=path, store=tmp_path / "store", knobs=knobs)
        for knobs in ({**SHAPE, "d_head": 0}, {**SHAPE, "d_head": 16})
    ]

    assert browser.get_log("browser") == []
    assert 0 < trained["probability"]["median"] < 1
    for answer, command in zip((told, wider), expected, strict=True):
        assert answer["probability"] == pytest.approx(command["probability"], abs=1e-3)
        assert answer["extrapolating"] == command["extrapolating"]
    assert told["probability"] != wider["probability"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"heads": 3, "d_head": 0}, "not divisible by the heads"),
        ({"d_model": 33}, "odd width"),
        ({"layers": 0}, "layers is a whole number from 1 on"),
        ({"layers": ""}, "layers is a whole number"),
    ],
)
def test_what_cannot_be_is_told_and_not_answered(wrong, told, browser, shipped):
    opened(browser, shipped)
    asked(browser, "parity, input bits", 7.0, {**SHAPE, **wrong})

    assert told in browser.find_element("css selector", ".wrong").text
    assert not browser.find_element("css selector", ".answer").is_displayed()


def test_the_form_is_of_the_runs_that_the_command_reads(shipped):
    from ullage.inquiry import Asked

    store = shipped / "store"
    inquiry = understood(Asked("parity", bits=7.0), store, None, store / KEPT, None)

    assert inquiry.evidence.source == "shipped"
    assert open_store(store).read().records == {}


# ── it can be read and used ───────────────────────────────────────────────────────────────────────


def luminance(colour):
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21.0)
    assert contrast((118, 118, 118), (255, 255, 255)) == pytest.approx(4.54, abs=0.01)


@LIGHT_AND_DARK
@pytest.mark.parametrize("which", ["shipped", "hostile"])
def test_every_text_stands_out_from_what_is_behind_it(which, theme, browser, request):
    opened(browser, request.getfixturevalue(which), theme=theme)
    seen = browser.execute_script(SEEN)
    faint = {one["text"]: contrast(one["colour"], one["back"]) for one in seen}

    assert sum(one["drawn"] for one in seen) > 50
    assert {text: ratio for text, ratio in faint.items() if ratio < CONTRAST} == {}


@LIGHT_AND_DARK
def test_the_theme_follows_the_system_and_a_button_turns_it(theme, browser, shipped):
    opened(browser, shipped, theme=theme)
    paper = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(paper)
    browser.find_element("id", "theme").click()
    after = browser.execute_script(paper)

    assert (luminance(json.loads(f"[{before[4:-1]}]")) > 0.5) == (theme == "light")
    assert (luminance(json.loads(f"[{after[4:-1]}]")) > 0.5) == (theme == "dark")


@LIGHT_AND_DARK
def test_print_is_dark_on_white_whatever_the_screen_is(theme, browser, shipped):
    opened(browser, shipped, theme=theme)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    seen = [one for one in browser.execute_script(SEEN) if one["text"]]

    assert {tuple(one["back"]) for one in seen} == {(255, 255, 255)}
    assert min(contrast(one["colour"], one["back"]) for one in seen) >= CONTRAST
    assert not browser.find_element("id", "fit").is_displayed()


def test_an_answer_that_is_not_to_be_trusted_looks_different(browser, tmp_path):
    records = world()
    posterior = fitted(observe(records), diagnostics=DOUBTFUL)
    notions = dict.fromkeys(posterior.conditions.families, "input")
    form = form_of({"nominal": posterior}, notions, {"nano": {**SHAPE, "d_head": 0}}, sizes_of(notions))
    write(page(material(records, form=form)), tmp_path / "page.html")
    opened(browser, tmp_path)
    content = "return getComputedStyle(document.querySelector('.word'), '::after').content"

    assert browser.execute_script(content) == '" (not to be trusted)"'
    assert "did not settle" in browser.find_element("id", "fit").text


def test_a_phone_shows_the_page_without_scrolling_aside_and_with_letters_that_can_be_read(browser, shipped):
    opened(browser, shipped, width=PHONE)
    widest = browser.execute_script("return document.documentElement.scrollWidth")
    seen = browser.execute_script(SEEN)

    assert widest <= PHONE
    assert min(one["size"] for one in seen if one["drawn"]) >= SMALLEST_LETTER
    assert min(one["size"] for one in seen if not one["drawn"]) >= 12


def test_the_keyboard_alone_reaches_everything_and_asks_the_form(browser, shipped):
    opened(browser, shipped)
    reached = collections.Counter()
    for _ in range(120):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        found = browser.switch_to.active_element
        reached[found.get_attribute("name") or found.tag_name] += 1
        if found.get_attribute("name") == "precision":
            break
    names = ["subject", "bits", "model", "layers", "heads", "d_head", "d_model", "d_ff", "precision"]
    form = browser.find_element("id", "fit")
    before = form.get_attribute("data-answer")
    bits = browser.find_element("name", "bits")
    bits.send_keys(Keys.CONTROL, "a")
    bits.send_keys("3")

    assert [reached[name] for name in names] == [1] * len(names)
    assert reached["a"] > 5
    assert form.get_attribute("data-answer") != before


def test_what_has_the_focus_can_be_seen(browser, shipped):
    opened(browser, shipped)
    browser.find_element("tag name", "body").send_keys(Keys.TAB)
    first = browser.switch_to.active_element
    outline = first.value_of_css_property("outline-style")

    assert first.text == "To the findings"
    assert outline == "solid"
    assert first.rect["x"] >= 0


def test_panels_that_wait_open_with_the_keyboard(browser, shipped):
    opened(browser, shipped)
    summary = browser.find_element("tag name", "summary")
    details = browser.find_element("tag name", "details")
    summary.send_keys(Keys.ENTER)

    assert details.get_attribute("open") is not None


def test_every_field_has_a_name_for_those_who_cannot_see_it(browser, shipped):
    opened(browser, shipped)
    fields = browser.find_elements("css selector", "#fit input, #fit select")

    assert len(fields) == 9
    assert all(field.accessible_name for field in fields)
    assert all(one.accessible_name for one in browser.find_elements("css selector", "svg[role=img]")[:5])
