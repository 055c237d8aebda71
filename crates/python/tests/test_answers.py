"""Answers about contracts and traces."""

import doctest
import html.parser
import json
import pathlib
import pickle
import re
import shutil
import subprocess
from datetime import timedelta

import punctual_rt
import pytest

ROOT = pathlib.Path(__file__).parents[3]
STUDIO = ROOT / "examples" / "studio.toml"
OVERLOADED = ROOT / "examples" / "overloaded.toml"
MIXER = '[[task]]\nname = "mixer"\nperiod = "10ms"\nwcet = "2ms"\n'


def test_the_examples_of_module_and_page_are_true():
    assert doctest.testmod(punctual_rt).failed == 0
    page = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False)
    assert page.attempted > 0 and page.failed == 0


def test_a_contract_is_admitted_with_its_numbers():
    answer = punctual_rt.admit(text=MIXER, profile="ideal")
    assert answer.admitted and answer["refusal"] is None
    assert answer.tasks[0].response_time_bound_ns == 2_000_000
    assert punctual_rt.admit(STUDIO, profile="ideal").admitted
    explained = punctual_rt.admit(str(STUDIO), profile="ideal", explain=True)
    assert explained.could_grow


def test_a_refusal_names_the_reason_and_what_would_fit():
    answer = punctual_rt.admit(OVERLOADED, profile="ideal")
    assert not answer.admitted
    assert answer.refusal.message and answer.refusal.counter_offers is not None
    with pytest.raises(AttributeError, match="it has"):
        _ = answer.nothing


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"text": "[[task]]\nname = 3\n"}, "text:2:8"),
        ({}, "a file or as a text"),
        ({"contract": STUDIO, "text": MIXER}, "a file or as a text"),
        ({"contract": "/nowhere.toml"}, "/nowhere.toml"),
        ({"text": MIXER, "profile": "/nowhere.toml"}, "/nowhere.toml"),
    ],
)
def test_bad_input_is_a_value_error_with_the_place(arguments, words):
    with pytest.raises(punctual_rt.BadInput, match=re.escape(words)) as raised:
        punctual_rt.admit(**arguments)
    assert isinstance(raised.value, ValueError)


def test_a_run_in_virtual_time_is_replayed_by_its_seed():
    ideal = {"text": MIXER, "profile": "ideal"}
    once = punctual_rt.simulate(**ideal, length="1s")
    assert (once.tasks[0].jobs, once.tasks[0].late) == (100, 0)
    half = punctual_rt.simulate(**ideal, length=timedelta(milliseconds=500))
    assert half.tasks[0].jobs == 50
    drawn = [punctual_rt.simulate(**ideal, length=10**9, seed=seed) for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]
    with pytest.raises(punctual_rt.BadInput, match="adversarial"):
        punctual_rt.simulate(**ideal, arrivals="never")


def test_jupyter_sees_tables():
    page = punctual_rt.admit(text=MIXER.replace("mixer", "<mixer>"), profile="ideal")._repr_html_()
    assert page.count("<table>") >= 2 and "&lt;mixer&gt;" in page and "2 ms" in page


class Frame(html.parser.HTMLParser):
    """Finds the page in a frame."""

    def __init__(self, text):
        super().__init__()
        self.page, self.sandbox = "", None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag == "iframe":
            self.page, self.sandbox = dict(attributes)["srcdoc"], dict(attributes)["sandbox"]


def test_jupyter_plots_a_run_in_virtual_time():
    two = MIXER.replace("mixer", "<mixer>") + MIXER.replace("mixer", "reverb")
    answer = punctual_rt.simulate(text=two, profile="ideal", length="100ms")
    shown = answer._repr_html_()
    assert "<table>" in shown
    frame = Frame(shown)
    assert frame.sandbox == "allow-scripts"
    assert frame.page == answer.to_html()
    assert frame.page.startswith("<!DOCTYPE html>") and frame.page.count("<svg") >= 2
    assert "&lt;mixer&gt;" in frame.page and "<mixer>" not in frame.page
    assert "0 broken" in re.sub("<.*?>", "", frame.page)
    plain = pickle.loads(pickle.dumps(answer))
    assert plain == answer and type(plain) is punctual_rt.Answer


def test_a_refused_run_has_a_page_too():
    heavy = MIXER.replace("2ms", "6ms")
    answer = punctual_rt.simulate(text=heavy + heavy.replace("mixer", "other"), profile="ideal")
    assert not answer.admitted and "broken" in answer.to_html()


def test_a_trace_is_judged(tmp_path):
    punctual = shutil.which("punctual", path=str(ROOT / "target" / "debug"))
    if punctual is None:
        pytest.skip("ignored: the program is not built")
    trace, late = tmp_path / "run.ptrace", tmp_path / "late.toml"
    # More than a CPU has: jobs are late for certain.
    heavy = MIXER.replace("2ms", "6ms")
    late.write_text(heavy + heavy.replace("mixer", "other"))
    simulated = subprocess.run(
        [punctual, "simulate", late, "--for", "1s", "--trace", trace], capture_output=True
    )
    assert simulated.returncode == 1, simulated.stderr
    late, end = punctual_rt.why(trace)
    assert late and late[0].causes
    assert json.loads(json.dumps(end)) == end
    with pytest.raises(punctual_rt.BadInput):
        punctual_rt.why(STUDIO)
    report = punctual_rt.report(trace, profile="ideal")
    verdicts = [row.verdict for row in report.tables.promises]
    assert "broken" in verdicts and report.promises_broken == verdicts.count("broken")
    assert report.is_whole and report.late_jobs > 0 and not report.admission.admitted
    assert Frame(report._repr_html_()).page == report.to_html()
    cut = tmp_path / "cut.ptrace"
    cut.write_bytes(trace.read_bytes()[:-40])
    assert not punctual_rt.report(cut).is_whole
    with pytest.raises(punctual_rt.BadInput, match=re.escape(str(STUDIO))):
        punctual_rt.report(STUDIO)
