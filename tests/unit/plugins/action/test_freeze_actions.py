# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions of a freeze on the controller: every host leaves a result, whatever happens to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.gpufleet.baseline.plugins.action import freeze, freeze_report, leak_check, run_dir
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run
from ansible_collections.gpufleet.baseline.tests.unit.plugins.action._host import (
    Host,
    action,
    freeze_host,
)


@pytest.fixture
def run(tmp_path):
    return _run.open_run(tmp_path / "repro", "1 1", {"kind": "freeze"})


def test_a_frozen_host(run, tmp_path):
    host = Host(tmp_path)
    result = freeze_host(run, host, tmp_path)
    assert result["state"] == "frozen"
    assert run.record("n1").read_bytes() == host.content
    assert not host.staging.exists()
    assert host.arguments["redaction_key"] == run.key().hex()
    assert (host.arguments["host"], host.arguments["run"]) == ("n1", "run-001")


def test_t22_digests_stay_out_of_the_tasks_output(run, tmp_path):
    result = freeze_host(run, Host(tmp_path), tmp_path)
    assert "digests" not in result
    assert _run.read_json(run.work("n1"))["digests"][0]["digest"] == "ab"


def test_t8_local_and_remote_hosts_are_asked_the_same(run, tmp_path):
    asked = {}
    for transport, method in (("local", ""), ("ssh", "sftp"), ("ssh", "scp")):
        host = Host(tmp_path)
        made = action(freeze, {"run": str(run.path), "smi_deadline": 5.0, "extra_files": ["/etc/*.conf"]})
        host.put_on(made, tmp_path)
        made._connection.transport = transport
        made._connection.get_option = lambda _name, method=method: method
        made._connection.set_option = lambda _name, _value: None
        assert made.run(None, {"inventory_hostname": "n1"})["state"] == "frozen"
        asked[transport + method] = host.arguments
    assert asked["local"]["smi_deadline"] == 5.0
    assert asked["sshsftp"] == asked["sshscp"] == asked["local"]


@pytest.mark.parametrize("step", ["make", "module"])
def test_t7_a_dead_host_is_a_result_with_its_reason(run, tmp_path, step):
    host = Host(tmp_path)
    host.dead_at = step
    # A connection that is cut once answers the clean-up again.
    result = freeze_host(run, host, tmp_path)
    assert result["state"] == "unreachable"
    assert "\n" not in result["reason"]
    assert _run.read_json(run.work("n1"))["state"] == "unreachable"
    assert not host.staging.exists()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Missing sudo password", "Missing sudo password; give it with -K"),
        (
            "failed to transfer file to /a /b/AnsiballZ_freeze.py:\n\ndd: '/b': No space left on device\n0+0 records",
            "no room for Ansible's files; add -e ansible_remote_tmp=/var/tmp (found: No space left on device)",
        ),
        ("something else", "something else"),
    ],
)
def test_what_ansible_itself_cannot_do_is_a_result_with_its_reason(run, tmp_path, monkeypatch, said, reason):
    host = Host(tmp_path)

    def refused(*_unused):
        raise AnsibleError(said)

    monkeypatch.setattr(host, "module", refused)
    result = freeze_host(run, host, tmp_path)
    assert (result["state"], result["reason"]) == ("failed", reason)
    assert _run.read_json(run.work("n1"))["reason"] == reason
    assert not host.staging.exists()


def test_a_host_that_dies_after_the_transfer_is_frozen_and_what_was_left_is_named(run, tmp_path):
    host = Host(tmp_path)
    host.dead_at = "remove"
    result = freeze_host(run, host, tmp_path)
    assert result["state"] == "frozen"
    assert str(host.staging) in result["left_behind"]


def test_a_module_that_fails_is_told_in_one_line_and_t17_leaves_nothing(run, tmp_path):
    host = Host(tmp_path)
    host.module_result = {
        "failed": True,
        "msg": "MODULE FAILURE: see below\nmore",
        "module_stderr": "Traceback\nKilled",
    }
    result = freeze_host(run, host, tmp_path)
    assert (result["state"], result["reason"]) == ("failed", "MODULE FAILURE: see below: Killed")
    assert not host.staging.exists()


def test_a_record_that_cannot_be_fetched_is_kept_on_the_host_and_named(run, tmp_path):
    host = Host(tmp_path)
    host.module_result["sha256"] = "0" * 64
    result = freeze_host(run, host, tmp_path)
    assert result["state"] == "failed"
    assert f"the sealed record is kept on n1 as {host.staging}/record.tar.gz" in result["reason"]
    assert (host.staging / "record.tar.gz").exists()
    assert not run.record("n1").exists()


def test_a_record_that_the_login_user_cannot_read_says_why(run, tmp_path):
    host = Host(tmp_path)
    host.module_result["refusal"] = "expected to give the record to uid 1000"
    result = freeze_host(run, host, tmp_path)
    assert (result["state"], result["reason"]) == ("failed", "expected to give the record to uid 1000")


def test_keep_on_host_keeps_it(run, tmp_path):
    host = Host(tmp_path)
    result = freeze_host(run, host, tmp_path, keep_on_host=True)
    assert result["kept_on_host"] == str(host.staging / "record.tar.gz")
    assert (host.staging / "record.tar.gz").exists()


@pytest.mark.parametrize(("text", "kept"), [("no", False), ("yes", True)])
def test_options_of_the_command_line_are_texts(run, tmp_path, text, kept):
    host = Host(tmp_path)
    result = freeze_host(run, host, tmp_path, keep_on_host=text, staging_places="/srv/a,/srv/b")
    assert bool(result["kept_on_host"]) is kept
    assert "for place in /srv/a /srv/b; do" in host.made_by


def test_a_cut_connection_names_what_it_left_on_the_host(run, tmp_path):
    host = Host(tmp_path)
    host.dead_from = "module"
    result = freeze_host(run, host, tmp_path)
    assert result["state"] == "unreachable"
    assert result["left_behind"].startswith(str(host.staging))
    _result, screen = close(run, ["n1"])
    assert "Left there    n1: /" in "\n".join(screen)
    assert str(host.staging) in (run.path / "summary.txt").read_text()


def test_t7_a_host_that_is_gone_when_ansible_cleans_up_keeps_its_result(run, tmp_path, monkeypatch):
    made = action(freeze, {"run": str(run.path)})
    made._connection._shell.tmpdir = "/dev/shm/ansible-tmp-1"

    def gone(_path: str, force: bool = False) -> None:
        raise AnsibleConnectionFailure("Connection refused")

    monkeypatch.setattr(made, "_remove_tmp_path", gone)
    made.cleanup()
    assert "Connection refused" in made._display.vv.call_args.args[0]


def test_check_mode_asks_the_module_for_its_plan_and_writes_nothing(tmp_path):
    made = action(freeze, {"run": ""}, check=True)
    made.run_module = lambda arguments, _variables: {"plan": ["gpu.smi.query: nvidia-smi -q"]}
    result = made.run(None, {"inventory_hostname": "n1"})
    assert (result["state"], result["plan"]) == ("planned", ["gpu.smi.query: nvidia-smi -q"])


def close(run: _run.Run, hosts: list[str]) -> tuple[dict[str, Any], list[str]]:
    made = action(freeze_report, {"run": str(run.path), "hosts": hosts}, name="freeze_report")
    result = made.run(None, {})
    return result, [call.args[0] for call in made._display.display.call_args_list]


def test_t7_one_dead_host_of_three_makes_the_run_partial(run, tmp_path):
    freeze_host(run, Host(tmp_path / "1"), tmp_path, "n1")
    freeze_host(run, Host(tmp_path / "2"), tmp_path, "n2")
    dead = Host(tmp_path / "3")
    dead.dead_at = "make"
    freeze_host(run, dead, tmp_path, "n3")
    result, screen = close(run, ["n1", "n2", "n3", "n4"])
    assert result["state"] == "partial"
    document = run.document()
    assert document["coverage"] == {"hosts": 4, "hosts_frozen": 2, "probes": 4, "probes_ok": 4}
    assert {host: entry["state"] for host, entry in document["hosts"].items()} == {
        "n1": "frozen", "n2": "frozen", "n3": "unreachable", "n4": "failed"
    }  # fmt: skip
    assert "2 of 4 hosts frozen (partial)" in "\n".join(screen)
    assert document["hosts"]["n4"]["reason"].startswith("no result")


def test_a_closed_run_has_facts_checksums_and_no_work_left(run, tmp_path):
    freeze_host(run, Host(tmp_path), tmp_path)
    result, _screen = close(run, ["n1"])
    assert result["state"] == "complete"
    names = {str(path.relative_to(run.path)) for path in run.path.rglob("*") if path.is_file()}
    assert names == {
        "SHA256SUMS",
        "facts/n1.json",
        "hosts/n1.tar.gz",
        "hosts/n1.tar.gz.sha256",
        "run.json",
        "summary.txt",
    }
    assert "digest" not in (run.path / "run.json").read_text()


def test_a_quarantined_record_makes_the_run_a_leak(run, tmp_path):
    freeze_host(run, Host(tmp_path), tmp_path)
    _run.write_json(
        run.work("n1"),
        {**_run.read_json(run.work("n1")), "state": "quarantined", "leaks": ["log: HF_TOKEN of n2"]},
    )
    result, _screen = close(run, ["n1"])
    assert result["state"] == "leak"
    assert run.document()["hosts"]["n1"]["leaks"] == ["log: HF_TOKEN of n2"]


def test_t21_what_a_quarantined_record_says_is_not_shown(run, tmp_path):
    host = Host(tmp_path)
    host.module_result["questions"] = {
        "short": {},
        "active": "key Zq8LxW4tNv7RkPc2",
        "not_measured": ["Zq8LxW4tNv7RkPc2"],
    }
    freeze_host(run, host, tmp_path)
    _run.write_json(
        run.work("n1"), {**_run.read_json(run.work("n1")), "state": "quarantined", "reason": "holds a secret"}
    )
    _result, screen = close(run, ["n1"])
    written = "\n".join(screen) + (run.path / "summary.txt").read_text() + (run.path / "run.json").read_text()
    assert "Zq8LxW4tNv7RkPc2" not in written


def check_leaks(run: _run.Run, host: str) -> dict[str, Any]:
    made = action(leak_check, {"run": str(run.path), "host": host}, name="leak_check")
    return made.run(None, {})


def test_a_record_that_could_not_be_tested_does_not_pass(run, tmp_path, monkeypatch):
    freeze_host(run, Host(tmp_path), tmp_path)

    def damaged(*_arguments: Any) -> list[Any]:
        raise BaselineError("expected a sealed record, found: not a gzip file")

    monkeypatch.setattr(leak_check, "find_leaks", damaged)
    assert check_leaks(run, "n1")["state"] == "quarantined"
    assert not run.record("n1").exists()
    _result, screen = close(run, ["n1"])
    assert "could not be tested for secrets of other hosts" in "\n".join(screen)


def test_the_leak_check_knows_hosts_by_their_inventory_name(run, tmp_path, monkeypatch):
    """Else a host with an odd name would be another host to itself, and each of its own secrets a leak."""
    asked: list[Any] = []
    monkeypatch.setattr(leak_check, "find_leaks", lambda *arguments: asked.append(arguments) or [])
    freeze_host(run, Host(tmp_path), tmp_path, "rack 1/tray:2")
    assert check_leaks(run, "rack 1/tray:2")["state"] == "frozen"
    _record, digests, _key, host = asked[0]
    assert (list(digests), host) == (["rack 1/tray:2"], "rack 1/tray:2")


SECRET = "Zq8LxW4tNv7RkPc2Ym5Hs9Bd"


def test_t21_what_the_operator_typed_stands_in_the_run_without_secrets(run, tmp_path):
    """By its name at once; by the digests of the hosts when the run is closed; the same stand-in as in the records."""
    arguments = {
        "kind": "freeze",
        "reproduction": str(tmp_path / "told"),
        "document": {
            "note": f"it uses {SECRET}",
            "earlier_changes": [{"time": "t", "what": "set HF_TOKEN=hf_canarycanarycanary1"}],
        },
    }
    opened = _run.Run(Path(action(run_dir, arguments, name="run_dir").run(None, {})["path"]))
    begun = (opened.path / "run.json").read_text()
    assert "hf_canary" not in begun
    assert "set HF_TOKEN=<redacted HF_TOKEN " in begun

    redactor = Redactor(opened.key())
    redactor.learn(SECRET.encode(), "API_KEY")
    host = Host(tmp_path)
    host.module_result["digests"] = redactor.digests()
    freeze_host(opened, host, tmp_path)
    (tmp_path / "body.json").write_text(json.dumps({"prompt": f"say {SECRET}"}))
    made = action(
        freeze_report,
        {"run": str(opened.path), "hosts": ["n1"], "request_file": str(tmp_path / "body.json")},
        name="freeze_report",
    )
    made.run(None, {})
    stand_in = redactor.redact_text(SECRET)
    assert opened.document()["note"] == f"it uses {stand_in}"
    assert _run.read_json(opened.path / "request" / "body.json") == {"prompt": f"say {stand_in}"}
    for path in opened.path.rglob("*"):
        assert path.is_dir() or SECRET not in path.read_text("utf-8", "replace")


def test_check_mode_shows_the_plan_of_the_group(tmp_path):
    plans = [
        {
            "host": "n1",
            "state": "planned",
            "reason": "",
            "plan": ["gpu.smi.query -> gpu/smi.txt", "container a (1)"],
        },
        {"host": "n2", "state": "planned", "reason": "", "plan": ["gpu.smi.query -> gpu/smi.txt"]},
        {"host": "n3", "state": "unreachable", "reason": "timed out", "plan": []},
    ]
    made = action(
        freeze_report, {"run": "", "hosts": ["n1"], "plans": plans}, check=True, name="freeze_report"
    )
    assert made.run(None, {})["state"] == "planned"
    assert [call.args[0] for call in made._display.display.call_args_list] == [
        "",
        "Freeze would collect from 2 of 3 hosts; nothing was written",
        "n3: unreachable: timed out",
        "probes        gpu.smi.query",
        "n1            container a (1)",
        "",
    ]


def test_run_dir_gives_the_same_run_to_the_same_playbook(tmp_path, monkeypatch):
    arguments = {"kind": "freeze", "reproduction": str(tmp_path / "repro")}
    first = action(run_dir, dict(arguments), name="run_dir").run(None, {})
    second = action(run_dir, dict(arguments), name="run_dir").run(None, {})
    assert first["path"] == second["path"] == str(tmp_path / "repro" / "run-001")


def test_run_dir_in_check_mode_makes_nothing(tmp_path):
    result = action(
        run_dir, {"kind": "freeze", "reproduction": str(tmp_path / "repro")}, check=True, name="run_dir"
    ).run(None, {})
    assert result["path"] == ""
    assert list(tmp_path.iterdir()) == []


def test_a_playbook_that_froze_nothing_fails_and_says_where_to_look(run, tmp_path):
    def confirmed(hostvars):
        made = action(freeze_report, {"confirm": True}, name="freeze_report")
        made.validate_argument_spec = lambda spec: (
            None,
            {**{key: spec[key]["default"] for key in spec}, "confirm": True},
        )
        return made.run(None, {"hostvars": hostvars})

    nothing = confirmed({"localhost": {}, "n1": {"__freeze_closed": {"failed": True, "msg": "no room"}}})
    assert nothing["failed"]
    assert "no host matched" in nothing["msg"]
    assert confirmed({"n1": {"__freeze_closed": {"state": "partial"}}})["state"] == "partial"


@pytest.mark.parametrize(("kind", "refused"), [("freeze", True), ("gate", False)])
def test_a_freeze_in_batches_is_refused_before_anything_is_done(tmp_path, kind, refused):
    made = action(run_dir, {"kind": kind, "reproduction": str(tmp_path / "repro")}, name="run_dir")
    made.validate_argument_spec = lambda spec: (
        None,
        {key: made._task.args.get(key, spec[key].get("default")) for key in spec},
    )
    batch = {"ansible_play_batch": ["n1"], "ansible_play_hosts": ["n1", "n2"]}
    if refused:
        with pytest.raises(AnsibleError, match="take serial out of the play"):
            made.run(None, batch)
        assert not (tmp_path / "repro").exists()
    else:
        assert made.run(None, batch)["run"] == "run-001"
