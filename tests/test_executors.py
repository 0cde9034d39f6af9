"""Executors keep their promises, and nothing that a run or a driver does leaves a process behind."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import executor_payloads
import pytest

from ullage import registry, sampler
from ullage.errors import BadInput
from ullage.executor import Ended, Progress, make_executor
from ullage.executors import processes
from ullage.executors.batched import Batched
from ullage.executors.processes import Processes, cache_folder, cause_of_death, environment, memory_kills
from ullage.executors.serial import Serial
from ullage.record import Status
from ullage.testing_executors import REHEARSE, Script, check_executor, child_processes, example_job
from ullage.worker import decode, encode

HERE = Path(__file__).parent
MARK = "ULLAGE_TEST_MARK"


@pytest.fixture(scope="module", autouse=True)
def _no_other_child():
    """Children are counted here, and the sampler of earlier tests would be one."""
    sampler.restart()


@pytest.fixture(autouse=True)
def _workers_find_the_payloads(monkeypatch, tmp_path):
    # An empty part would be the working folder, from which nothing is to be imported.
    places = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
    monkeypatch.setenv("ULLAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)


MAKE = {
    "serial": lambda workers, perform: Serial(perform),
    "processes": Processes,
    "batched": Batched,
}


def test_every_executor_is_tested():
    assert set(registry.names("executor")) == set(MAKE)


@pytest.mark.parametrize("name", MAKE)
def test_every_executor_keeps_its_promises(name):
    assert [clause for clause in check_executor(MAKE[name]) if not clause.passed] == []


def test_the_command_line_uses_processes():
    assert make_executor(2) == Processes(2)


# ── the suite finds what is broken ───────────────────────────────────────────────────────────────


def forgets_an_end(run, ask, tell):
    run(ask, lambda event: True if isinstance(event, Ended) and event.job.seed == 2 else tell(event))


def ends_twice(run, ask, tell):
    run(ask, lambda event: (tell(event) if isinstance(event, Ended) else True) and tell(event))


def never_stops(run, ask, tell):
    run(ask, lambda event: tell(event) or True)


def always_stops(run, ask, tell):
    run(ask, lambda event: tell(event) and False)


def swallows(run, ask, tell):
    with contextlib.suppress(KeyError):
        run(ask, tell)


def asks_for_too_many(run, ask, tell):
    held = []

    def ask_for_more(lanes):
        if not held:
            jobs = ask(lanes + 3)
            if not jobs:
                return jobs
            held.extend(jobs)
        return [held.pop(0)]

    run(ask_for_more, tell)


def asks_again(run, ask, tell):
    run(ask, tell)
    ask(1)


def tells_checkpoints_late(run, ask, tell):
    late = []

    def tell_late(event):
        if isinstance(event, Progress):
            late.append(event)
            return True
        answer = tell(event)
        while late:
            tell(late.pop())
        return answer

    run(ask, tell_late)


def starts_backwards(run, ask, tell):
    held = []

    def ask_backwards(lanes):
        if not held:
            jobs = ask(lanes + 1)
            if not jobs:
                return jobs
            held.extend(jobs)
        return [held.pop()]

    run(ask_backwards, tell)


def hides_a_defect(run, ask, tell):
    def tell_well(event):
        if isinstance(event, Ended):
            event = dataclasses.replace(event, record=dataclasses.replace(event.record, status="finished"))
        return tell(event)

    run(ask, tell_well)


@dataclasses.dataclass(frozen=True)
class Broken:
    """An executor whose `run` is tampered with."""

    tamper: object
    perform: str

    def run(self, ask, tell):
        self.tamper(Serial(self.perform).run, ask, tell)


@pytest.mark.parametrize(
    ("tamper", "promise"),
    [
        (forgets_an_end, "every job ends exactly once"),
        (ends_twice, "every job ends exactly once"),
        (never_stops, "a run that is told to stop"),
        (always_stops, "a run that is not told to stop"),
        (swallows, "what the driver raises"),
        (asks_for_too_many, "it asks for as many jobs"),
        (asks_again, "it asks no more"),
        (tells_checkpoints_late, "events of one job"),
        (starts_backwards, "jobs are started in the order"),
        (hides_a_defect, "a job that raises"),
    ],
)
def test_the_suite_finds_a_broken_executor(tamper, promise):
    clauses = check_executor(lambda workers, perform: Broken(tamper, perform))

    assert any(clause.clause.startswith(promise) for clause in clauses if not clause.passed)
    assert not all(clause.why.startswith("raised") for clause in clauses)


def test_the_suite_finds_results_that_depend_on_the_lanes():
    @dataclasses.dataclass(frozen=True)
    class Uneven:
        workers: int
        perform: str

        def run(self, ask, tell):
            def tell_uneven(event):
                if isinstance(event, Ended):
                    record = dataclasses.replace(event.record, score=float(self.workers))
                    event = dataclasses.replace(event, record=record)
                return tell(event)

            Serial(self.perform).run(ask, tell_uneven)

    broken = [clause.clause for clause in check_executor(Uneven) if not clause.passed]

    assert broken == ["results do not depend on the number of lanes"]


def test_the_suite_finds_a_process_that_is_left():
    left = []

    @dataclasses.dataclass(frozen=True)
    class Leaving:
        perform: str

        def run(self, ask, tell):
            left.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
            Serial(self.perform).run(ask, tell)

    clauses = check_executor(lambda workers, perform: Leaving(perform))
    for process in left:
        process.communicate(b"\n")

    assert [clause.clause for clause in clauses if not clause.passed] == ["nothing is left running"]


# ── what runs can do to a worker ─────────────────────────────────────────────────────────────────


def run_all(jobs, workers=1, on_progress=lambda event: None):
    """Run jobs; give their records by seed, and their curves."""
    given = list(jobs)
    records, curves = {}, {}

    def ask(lanes):
        jobs, given[:lanes] = given[:lanes], []
        return jobs or None

    def tell(event):
        if isinstance(event, Progress):
            on_progress(event)
            return True
        assert event.job.seed not in records
        records[event.job.seed], curves[event.job.seed] = event.record, event.curve
        return True

    Processes(workers, executor_payloads.PAYLOAD).run(ask, tell)
    assert child_processes() == set()
    return records, curves


@pytest.mark.parametrize(
    ("study", "status", "reason"),
    [
        ("exit:3", Status.FAILED, "the worker ended with exit code 3; its last words: the last straw"),
        ("leave", Status.FAILED, "the worker ended with exit code 1; its last words: no more"),
        (f"signal:{signal.SIGKILL:d}", Status.FAILED, "the worker was killed by SIGKILL"),
        (f"signal:{signal.SIGSEGV:d}", Status.FAILED, "the worker was killed by SIGSEGV"),
        ("raise", Status.FAILED, "ZeroDivisionError: by zero"),
        ("exhaust", Status.OUT_OF_MEMORY, "out of memory: no room"),
    ],
)
def test_a_run_that_dies_is_told_and_the_next_one_goes_on(study, status, reason):
    records, curves = run_all([example_job(0, study), example_job(1, "nothing")])

    assert (records[0].status, records[0].reason, curves[0]) == (status, reason, ())
    assert records[1].status == Status.FINISHED


def test_the_other_lane_goes_on_when_a_worker_dies():
    jobs = [example_job(0, "sleep:2"), *(example_job(seed, "exit:1") for seed in (1, 2))]
    records, _ = run_all([*jobs, example_job(3, "nothing")], workers=2)

    assert [records[seed].status for seed in range(4)] == ["finished", "failed", "failed", "finished"]


def test_a_worker_that_dies_without_a_job_harms_no_run():
    jobs = [example_job(0, "sleep:2"), example_job(1, "linger:0.3"), example_job(2, "nothing")]
    ended = []

    def ask(lanes):
        if len(jobs) == 1 and 0 not in ended:
            return []  # by the time the long job has ended, the other worker has died
        given, jobs[:] = jobs[:lanes] if len(jobs) == 1 else jobs[:2], jobs[2 if len(jobs) > 1 else 1 :]
        return given or None

    def tell(event):
        if isinstance(event, Ended):
            assert event.record.status == Status.FINISHED
            ended.append(event.job.seed)
        return True

    Processes(2, executor_payloads.PAYLOAD).run(ask, tell)

    assert ended == [1, 0, 2]


def test_what_a_task_prints_does_not_disturb():
    records, _ = run_all([example_job(0, "print"), example_job(1, "nothing")])

    assert (records[0].status, records[0].reason) == (Status.FINISHED, "read ''")
    assert records[1].status == Status.FINISHED


def test_large_jobs_and_curves_pass_both_ways():
    job = example_job(0, "much")
    large = dataclasses.replace(job, task={**job.task, "source": "#" * 2**21})
    checkpoints = []
    records, curves = run_all(
        [large, job.__class__(**{**dataclasses.asdict(large), "seed": 1})],
        workers=2,
        on_progress=lambda event: checkpoints.append(len(event.checkpoint.scores)),
    )

    assert [len(curves[seed]) for seed in (0, 1)] == [10_000, 10_000]
    assert curves[0][9_999] == (large.run_id, 9_999, "validation", "score", 9_999 / 7)
    assert sorted(checkpoints) == [1, 1, 10_000, 10_000]
    assert records[0].status == Status.FINISHED


def test_a_worker_is_deaf_to_ctrl_c():
    def interrupt(event):
        for worker in child_processes():
            os.kill(worker, signal.SIGINT)

    records, _ = run_all([example_job(0, "sleep:0.5")], on_progress=interrupt)

    assert records[0].status == Status.FINISHED


def test_a_file_of_the_users_does_not_hide_a_module(tmp_path, monkeypatch):
    (tmp_path / "copy.py").write_text("raise SystemExit('this is a task, not a module')\n")
    monkeypatch.chdir(tmp_path)
    records, _ = run_all([example_job(0, "nothing")])

    assert records[0].status == Status.FINISHED


# ── the process that a worker is ─────────────────────────────────────────────────────────────────


def with_precision(job, precision):
    document = {**job.recipe, "architecture": dict(job.recipe["architecture"])}
    document["architecture"]["knobs"] = {**document["architecture"]["knobs"], "precision": precision}
    return dataclasses.replace(job, recipe=document)


def test_a_worker_has_the_precision_that_its_job_needs():
    jobs = [
        with_precision(example_job(seed, "precision"), name)
        for seed, name in enumerate(["f32", "f64", "f64", "f32"])
    ]
    workers = []
    records, _ = run_all(jobs, on_progress=lambda event: workers.append(child_processes()))

    assert [records[seed].reason for seed in range(4)] == ["float32", "float64", "float64", "float32"]
    assert workers[1] == workers[2]
    assert workers[0] != workers[1] != workers[3]


def test_a_job_of_64_bits_is_refused_where_they_are_not_allowed():
    jobs = [[with_precision(example_job(0), "f64")], None]

    with pytest.raises(BadInput, match="JAX_ENABLE_X64=1"):
        Serial(REHEARSE).run(lambda lanes: jobs.pop(0), lambda event: True)


def at_level(job, level):
    return dataclasses.replace(job, task={**job.task, "level": level})


def test_jobs_go_to_the_worker_that_has_compiled_their_shape():
    levels = [2, 4, 4, 2, 8, 4]
    jobs = [at_level(example_job(seed, "who"), level) for seed, level in enumerate(levels)]
    workers = {}

    def ask(lanes):
        if lanes < 2:
            return []  # pairs begin together
        pair, jobs[:] = jobs[:2], jobs[2:]
        return pair or None

    def tell(event):
        if isinstance(event, Ended):
            workers[event.job.seed] = event.record.reason
        return True

    Processes(2, executor_payloads.PAYLOAD).run(ask, tell)

    assert workers[0] == workers[3] == workers[4]
    assert workers[1] == workers[2] == workers[5]
    assert workers[0] != workers[1]


def test_numbers_do_not_change_the_shape_of_a_job_and_what_is_compiled_does():
    job = example_job(0)
    numbers = {
        "learning_rate": 0.5,
        "weight_decay": 0.5,
        "warmup_steps": 7,
        "step_limit": 9,
        "evaluate_every": 3,
    }
    others = [
        at_level(job, job.task["level"] + 1),
        with_precision(job, "bf16"),
        dataclasses.replace(job, recipe={**job.recipe, "batch_size": 64}),
        dataclasses.replace(job, recipe={**job.recipe, "dropout": 0.1}),
    ]

    assert dataclasses.replace(job, seed=1, recipe={**job.recipe, **numbers}).shape == job.shape
    assert len({job.shape, *(other.shape for other in others)}) == 5


def test_a_worker_computes_on_one_core():
    records, _ = run_all([example_job(0, "threads")])

    threads, cores = records[0].reason.split()
    assert threads == "1"
    assert float(cores) < 1.2


def test_a_compiled_program_is_kept_and_gives_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    first, _ = run_all([example_job(0, "descend"), example_job(1, "descend")], workers=2)
    kept = sorted(path.name for path in (tmp_path / "cache" / "xla").glob("jit_descend*-cache"))
    again, _ = run_all([example_job(0, "descend")])
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "0")
    without, _ = run_all([example_job(0, "descend")])

    assert len(kept) == 1
    assert len({first[0].reason, first[1].reason, again[0].reason, without[0].reason}) == 1


def test_the_environment_of_the_user_is_kept_but_for_threads_and_precision(monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    found = environment(x64=False)

    assert found["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"
    assert (found["JAX_ENABLE_X64"], found["OMP_NUM_THREADS"], found["PJRT_NPROC"]) == ("0", "1", "1")


def test_the_cache_is_in_the_users_own_folder_unless_said_otherwise(monkeypatch, tmp_path):
    monkeypatch.delenv("ULLAGE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert cache_folder() == tmp_path / "ullage"

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert cache_folder() == tmp_path / ".cache" / "ullage"


@pytest.mark.parametrize(
    ("code", "words", "kills", "expected"),
    [
        (-9, "", 0, (Status.FAILED, "the worker was killed by SIGKILL")),
        (
            -9,
            "",
            1,
            (Status.OUT_OF_MEMORY, "the worker was killed by SIGKILL while the machine was out of memory"),
        ),
        (-11, "", 1, (Status.FAILED, "the worker was killed by SIGSEGV")),
        (-40, "", 0, (Status.FAILED, "the worker was killed by signal 40")),
        (None, "", 0, (Status.FAILED, "the worker closed its output")),
        (1, "a\n\n  b\n", 0, (Status.FAILED, "the worker ended with exit code 1; its last words: a / b")),
    ],
)
def test_the_cause_of_death_is_a_sentence(code, words, kills, expected):
    assert cause_of_death(code, words, kills) == expected


def test_kills_for_want_of_memory_are_counted_by_the_kernel(monkeypatch, tmp_path):
    counters = tmp_path / "vmstat"
    counters.write_text("nr_free_pages 5\noom_kill 3\n")
    monkeypatch.setattr(processes, "KERNEL_COUNTERS", counters)

    assert memory_kills() == 3

    counters.unlink()

    assert memory_kills() == 0


# ── what a driver can do ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", MAKE)
def test_waiting_for_nothing_is_a_defect_of_the_driver(name):
    with pytest.raises(RuntimeError, match="nothing can ever be told"):
        MAKE[name](1, REHEARSE).run(lambda lanes: [], lambda event: True)


def test_more_jobs_than_lanes_at_once_is_a_defect_of_the_driver():
    jobs = [example_job(0), example_job(1)]

    with pytest.raises(RuntimeError, match="2 jobs were given where 1 were asked for"):
        Processes(1, REHEARSE).run(lambda lanes: jobs, lambda event: True)


def test_no_workers_are_refused():
    with pytest.raises(BadInput, match="workers=0"):
        Processes.with_workers(0)


def test_a_worker_that_cannot_start_is_not_the_fault_of_a_job():
    script = Script([example_job(0)])

    with pytest.raises(RuntimeError, match=r"could not start: .*no function 'no_such_module:perform'"):
        Processes(1, "no_such_module:perform").run(script.ask, script.tell)

    assert script.events == []


@pytest.mark.parametrize(("study", "least_seconds"), [("sleep:60", 0.0), ("ignore", processes.GRACE_SECONDS)])
def test_busy_workers_are_ended_at_once_and_those_that_will_not_end_after_a_moment(study, least_seconds):
    jobs = [[example_job(0, study), example_job(1, "sleep:1")], None]
    raised = []

    def tell(event):
        if isinstance(event, Ended):  # by now the other worker is inside what it was asked to do
            raised.append(time.monotonic())
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        Processes(2, executor_payloads.PAYLOAD).run(lambda lanes: jobs.pop(0), tell)

    assert least_seconds <= time.monotonic() - raised[0] < least_seconds + 1.9
    assert child_processes() == set()


DRIVER = """
import signal, sys
from executor_payloads import PAYLOAD
from ullage.executors.processes import Processes
from ullage.testing_executors import example_job

# A shell that runs the tests in its background has Ctrl-C ignored by all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
jobs = [[example_job(seed, sys.argv[1]) for seed in range(int(sys.argv[2]))], None]

def tell(event):
    print("told", flush=True)
    return True

Processes(int(sys.argv[2]), PAYLOAD).run(lambda lanes: jobs.pop(0), tell)
"""


@contextlib.contextmanager
def driver(study, workers=1):
    """A driver in a process group of its own, whose workers have begun; it and they carry a mark."""
    mark = f"{os.getpid()}-{study}"
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, study, str(workers)],
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for _ in range(workers):
            assert process.stdout.readline() == "told\n"
        time.sleep(1.5)  # by now the worker is inside what it was asked to do
        assert len(marked(mark)) == workers + 1
        yield process, mark
    finally:
        process.kill()
        process.communicate()
        for left in marked(mark):
            os.kill(left, signal.SIGKILL)


def marked(mark):
    """The living processes that carry a mark in their environment."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in path.read_bytes().split(b"\0"):
                found.add(int(path.parent.name))
    return found


def seconds_until_gone(mark, limit):
    start = time.monotonic()
    while marked(mark) and time.monotonic() - start < limit:
        time.sleep(0.05)
    return time.monotonic() - start


@pytest.mark.parametrize("study", ["sleep:60", "compute", "compile", "hold", "ignore"])
def test_no_worker_outlives_a_driver_that_is_killed(study):
    with driver(study) as (process, mark):
        process.kill()
        process.wait()

        assert seconds_until_gone(mark, limit=10) < 5


@pytest.mark.parametrize("study", ["sleep:60", "ignore"])
def test_ctrl_c_ends_the_driver_and_all_its_workers(study):
    with driver(study, workers=2) as (process, mark):
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)

        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert seconds_until_gone(mark, limit=10) < 5


def started_worker(driver):
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ullage.worker",
            "--driver",
            str(driver),
            "--perform",
            executor_payloads.PAYLOAD,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("study", ["sleep:60", "compute", "compile"])
def test_a_worker_ends_with_its_pipe_whatever_it_is_busy_with(study):
    process = started_worker(os.getpid())
    answers = [{"job": dataclasses.asdict(example_job(0, study))}, {"go_on": True}]
    for expected, answer in zip(("ready", "checkpoint"), answers, strict=True):
        assert expected in decode(process.stdout.readline())
        process.stdin.write(encode(answer))
        process.stdin.flush()
    time.sleep(1.5)  # by now the worker is inside what it was asked to do
    running = process.poll() is None
    process.stdin.close()
    code = process.wait(5)
    process.stdout.close()

    assert (running, code) == (True, 0)


def test_a_worker_whose_driver_is_gone_does_not_start():
    process = started_worker(driver=os.getppid())
    said, _ = process.communicate(timeout=60)

    assert (said, process.returncode) == (b"", 1)
