"""Virtual machines of libvirt, by its own test driver within its daemon, whose state outlives whoever acts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.handlers.handler import HandlerError
from tests.impl.drivers.machine import needs, said
from tests.impl.drivers.one import One
from tests.waiting import wait_until

pytestmark = [
    needs("virsh"),
    pytest.mark.skipif(shutil.which("libvirtd") is None, reason="needs libvirtd (libvirt-daemon-system)"),
]
CONFIGURATION = """
listen_tls = 0
listen_tcp = 0
unix_sock_dir = "{folder}"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:{folder}/log"
"""


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A daemon of one's own; its test driver keeps what it has while a connection is open, so one is."""
    folder = tmp_path_factory.mktemp("virt")
    (folder / "configuration").write_text(CONFIGURATION.format(folder=folder))
    daemon = subprocess.Popen(
        ["libvirtd", "-f", folder / "configuration", "-p", folder / "pid"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    uri = f"test+unix:///default?socket={folder}/libvirt-sock"
    keeps: subprocess.Popen[bytes] | None = None
    try:
        wait_until(lambda: "running" in said("virsh", "-c", uri, "list"))
        keeps = subprocess.Popen(["virsh", "-c", uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert keeps.stdin is not None
        assert keeps.stdout is not None
        keeps.stdin.write(b"hostname\nhostname\n")
        keeps.stdin.flush()
        while b"virsh #" not in keeps.stdout.readline():
            pass
        yield uri
    finally:
        for process in filter(None, (keeps, daemon)):
            process.kill()
            process.wait()
        if keeps is not None and keeps.stdin is not None:
            keeps.stdin.close()
        if keeps is not None and keeps.stdout is not None:
            keeps.stdout.close()


def domains(uri: str) -> dict[str, str]:
    lines = [line.split(maxsplit=2) for line in said("virsh", "-q", "-c", uri, "list", "--all").splitlines()]
    return {name: state for _, name, state in lines if name != "test"}


def info(uri: str, name: str) -> dict[str, str]:
    lines = said("virsh", "-q", "-c", uri, "dominfo", name).splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines if line)}


def test_a_domain_is_made_once_resized_and_removed(units: Path, uri: str) -> None:
    one = One(units, "libvirt")
    given = {"uri": uri, "kind": "test", "memory": "64MiB", "cpus": 1, "most_cpus": 4, "most_memory": "128MiB"}
    assert one.probe(**given) is None
    first = one.create(**given)
    assert domains(uri) == {one.name: "running"}
    identifier = info(uri, one.name)["Id"]
    assert one.create(**given) == first
    assert info(uri, one.name)["Id"] == identifier, "it was not started again"
    one.modify(**{**given, "memory": "96MiB", "cpus": 3})
    size = info(uri, one.name)
    assert (size["CPU(s)"], size["Used memory"], size["UUID"]) == ("3", "98304 KiB", first["uuid"])
    assert size["Id"] == identifier
    found = one.probe(**given)
    assert found is not None
    assert found.up
    one.destroy(**given)
    one.destroy(**given)
    assert domains(uri) == {}
    assert one.probe(**given) is None


def test_a_domain_in_any_state_is_brought_up_and_removed(units: Path, uri: str) -> None:
    one = One(units, "libvirt")
    given: dict[str, Any] = {"uri": uri, "kind": "test", "memory": "64MiB"}
    for verb, state in (("destroy", "shut off"), ("suspend", "paused")):
        one.create(**given)
        said("virsh", "-c", uri, verb, one.name)
        assert domains(uri) == {one.name: state}
        found = one.probe(**given)
        assert found is not None
        assert (found.up, found.words) == (False, f"domain {one.name}, {state}")
        one.create(**given)
        assert domains(uri) == {one.name: "running"}
        said("virsh", "-c", uri, verb, one.name)
        one.destroy(**given)
        assert domains(uri) == {}


def test_a_template_and_a_disk(units: Path, uri: str, tmp_path: Path) -> None:
    template = tmp_path / "domain.xml"
    template.write_text("<domain type='test'><name>x</name><memory>1</memory><os><type>hvm</type></os></domain>")
    one = One(units, "libvirt")
    given = {"uri": uri, "memory": "32MiB", "template": str(template), "disk": str(tmp_path / "disk")}
    one.create(**given)
    described = said("virsh", "-c", uri, "dumpxml", one.name)
    assert f"<source file='{tmp_path}/disk'/>" in described
    assert info(uri, one.name)["Max memory"] == "32768 KiB"
    one.destroy(**given)
    template.write_text("<domain")
    with pytest.raises(HandlerError, match="is no domain of libvirt"):
        one.create(**given)


def test_a_connection_that_keeps_nothing_or_is_not_there_is_told(units: Path) -> None:
    one = One(units, "libvirt")
    with pytest.raises(HandlerError, match=r"keeps nothing, and needs the daemon, as test\+unix:///default"):
        one.create(uri="test:///default", kind="test", memory="64MiB")
    with pytest.raises(HandlerError, match=r"virsh .* ended with code 1"):
        one.create(uri="nothing:///x", memory="64MiB")
