"""The files in deploy/: a unit that systemd accepts, and a Dockerfile whose commands exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from whimbrel.cli.main import app

DEPLOY = Path(__file__).parent.parent / "deploy"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "whimbrel.service"
    unit.write_text((DEPLOY / "whimbrel.service").read_text().replace("/opt/whimbrel/bin/whimbrel", "/usr/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_commands_and_files_that_deploy_names_exist() -> None:
    text = (DEPLOY / "whimbrel.service").read_text() + (DEPLOY / "Dockerfile").read_text()
    assert {"warm", "serve"} <= set(re.findall(r"whimbrel (\w+)", text))
    for command in ("warm", "serve", "token"):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
    serve = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    assert all(flag in serve for flag in re.findall(r"--[a-z-]+", "--config --log --host --data"))
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert names and all((DEPLOY.parent / name).exists() for name in names)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text()
    assert all(f"!{name}" in ignored for name in names)
