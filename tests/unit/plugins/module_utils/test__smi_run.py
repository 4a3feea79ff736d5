# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Callable, Dict, List

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _driver, _gpu_devices, _smi, _smi_run
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    Probe,
    ProbeFailure,
    ProbeSpec,
    Reading,
    run_probes,
)

CAPTURES = Path(__file__).resolve().parents[3] / "fixtures" / "captures" / "h200"

Stub = Callable[[str], None]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Writes an nvidia-smi of two lines or more that comes first on PATH; the host has no other GPU."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(_smi_run, "expected_gpus", list)
    monkeypatch.setattr(_driver, "why_not_to_ask", lambda: "")

    def write(script: str) -> None:
        path = tmp_path / "nvidia-smi"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return write


def probes(deadline: float = 30.0) -> List[ProbeSpec]:
    smi = _smi_run.smi_probe
    return [
        smi("list", ["-L"], "list.txt", deadline, _smi.parse_list, _smi_run.count_gpus),
        smi("query", ["-q"], "q.txt", deadline, _smi.parse_query, _smi_run.count_gpus),
        smi("xml", ["-q", "-x"], "q.xml", deadline, _smi.parse_xml, _smi_run.count_gpus),
    ]


def ask(deadline: float = 30.0) -> Dict[str, Probe]:
    return run_probes(probes(deadline))


HEALTHY = (
    'case "$*" in -L) echo "GPU 0: NVIDIA H200 (UUID: GPU-a)";; "-q -x") cat %s;; *) cat %s;; esac\n'
    % (
        CAPTURES / "smi-q.xml",
        CAPTURES / "smi-q.txt",
    )
)


def test_a_healthy_host_is_ok_with_evidence_and_value(stub: Stub) -> None:
    stub(HEALTHY)
    answers = ask()
    assert [answer.outcome for answer in answers.values()] == ["ok", "ok", "ok"]
    assert answers["xml"].raw == (CAPTURES / "smi-q.xml").read_bytes()
    assert len(answers["query"].value["gpus"]) == 2


def test_t1_an_smi_that_sleeps_for_ever_is_a_timeout_and_never_no_gpus(stub: Stub) -> None:
    stub("trap '' TERM INT HUP\nwhile :; do sleep 1; done\n")
    answers = ask(0.5)
    assert answers["list"].outcome == "timeout"
    assert set(answers) == {"list", "query", "xml"}


def test_t2_a_child_of_smi_that_holds_the_pipe_does_not_hold_us(stub: Stub) -> None:
    stub("trap '' TERM\nsleep 300 &\nexec sleep 300\n")
    assert ask(0.5)["list"].outcome == "timeout"


def test_t3_half_an_answer_is_kept_and_marked(stub: Stub) -> None:
    stub('case "$*" in -q) head -c 20000 %s; exec sleep 300;; esac\n' % (CAPTURES / "smi-q.txt"))
    answer = run_probes(probes(1.0)[1:2])["query"]
    assert (answer.outcome, answer.partial) == ("timeout", True)
    assert answer.raw == (CAPTURES / "smi-q.txt").read_bytes()[:20000]
    assert answer.value["gpus"][0]["facts"]["GPU UUID"].startswith("GPU-")


def test_t4_after_one_hung_call_no_further_call_is_made(stub: Stub, tmp_path: Path) -> None:
    stub('echo "$*" >>%s/calls\nexec sleep 300\n' % tmp_path)
    answers = ask(0.5)
    assert [answer.outcome for answer in answers.values()] == ["timeout", "skipped", "skipped"]
    assert (tmp_path / "calls").read_text() == "-L\n"


@pytest.mark.parametrize("words", ["ERR!", "[Unknown Error]", "GPU is lost"])
def test_t5_exit_0_with_words_of_trouble_is_an_error_that_keeps_the_evidence(stub: Stub, words: str) -> None:
    stub("echo 'GPU 0: NVIDIA H200 (UUID: GPU-a)'\necho '%s'\nexit 0\n" % words)
    answer = ask()["list"]
    assert answer.outcome == "error"
    assert words in answer.message
    assert words.encode() in answer.raw
    assert len(answer.value) == 1


def test_t5_fewer_rows_than_pci_functions_is_an_error(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(HEALTHY)
    monkeypatch.setattr(_smi_run, "expected_gpus", lambda: ["0000:00:06.0", "0000:00:07.0", "0000:00:08.0"])
    answers = ask()
    assert answers["query"].outcome == "error"
    assert answers["query"].message == "nvidia-smi lists 2 of the 3 NVIDIA GPUs on the PCI bus"
    assert len(answers["query"].value["gpus"]) == 2


def test_t5_more_rows_than_pci_functions_is_an_error(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(HEALTHY)
    monkeypatch.setattr(_smi_run, "expected_gpus", lambda: ["0000:00:06.0"])
    answer = ask()["query"]
    assert (answer.outcome, len(answer.value["gpus"])) == ("error", 2)
    assert answer.message == "nvidia-smi lists 2 GPUs, the PCI bus has 1 of NVIDIA"


def test_t5_without_a_bus_to_read_rows_are_compared_with_nothing(stub: Stub) -> None:
    stub(HEALTHY)
    assert ask()["query"].outcome == "ok"


def test_t6_a_slow_smi_is_ok_and_its_duration_is_told(stub: Stub) -> None:
    stub("sleep 1\n" + HEALTHY)
    answer = run_probes(probes()[:1])["list"]
    assert answer.outcome == "ok"
    assert answer.seconds >= 1


def test_an_xml_that_breaks_off_is_an_error(stub: Stub) -> None:
    stub("head -c 3000 %s\n" % (CAPTURES / "smi-q.xml"))
    answer = ask()["xml"]
    assert answer.outcome == "error"
    assert "expected the XML of nvidia-smi" in answer.message


def test_a_failure_says_why_and_names_its_trouble_once(stub: Stub) -> None:
    stub("echo 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n")
    assert ask()["list"].message == (
        "exit status 18; Failed to initialize NVML: Driver/library version mismatch"
    )


def test_a_library_that_the_loader_does_not_find_is_looked_for(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub('[ "$LD_LIBRARY_PATH" = %s ] || exit 12\necho "GPU 0: NVIDIA H200 (UUID: GPU-a)"\n' % tmp_path)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(_smi_run, "library_directory", lambda: None)
    assert ask()["list"].outcome == "error"
    monkeypatch.setattr(_smi_run, "library_directory", lambda: str(tmp_path))
    assert ask()["list"].outcome == "ok"


def test_the_first_directory_with_the_library_is_taken(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "libnvidia-ml.so.1").touch()
    assert _smi_run.library_directory([str(tmp_path / "a"), str(tmp_path / "b")]) == str(tmp_path / "b")
    assert _smi_run.library_directory([str(tmp_path / "a")]) is None


def test_t15_smi_is_not_called_where_it_would_load_the_module(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub("echo called >&2; exit 0\n")
    monkeypatch.setattr(_driver, "why_not_to_ask", lambda: "asking would load it")
    answers = ask()
    assert {answer.outcome for answer in answers.values()} == {"skipped"}
    assert answers["list"].message == "not asked: asking would load it"
    with pytest.raises(ProbeFailure):
        _smi_run.refuse_if_it_would_change_the_host()


def test_a_bus_that_cannot_be_read_expects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise PermissionError

    monkeypatch.setattr(_gpu_devices, "read_pci", fail)
    assert _smi_run.expected_gpus() == []


def test_t5_a_timeout_stays_a_timeout_whatever_was_printed() -> None:
    reading = Reading(raw=b"ERR!\n", outcome="timeout", message="late")
    judged = _smi_run.judge(reading, _smi.parse_list, _smi_run.count_gpus, ["0000:00:06.0"])
    assert (judged.outcome, judged.message) == ("timeout", "late")


def test_t5_more_gpus_than_the_bus_has_are_not_believed(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_smi_run, "expected_gpus", lambda: ["0000:00:06.0"])
    stub('echo "GPU 0: NVIDIA H200 (UUID: GPU-a)"; echo "GPU 0: NVIDIA H200 (UUID: GPU-a)"\n')
    answer = ask()["list"]
    assert (answer.outcome, answer.message) == (
        "error",
        "nvidia-smi lists 2 GPUs, the PCI bus has 1 of NVIDIA",
    )
