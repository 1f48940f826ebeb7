"""The job that matches for a broker, elsewhere than the broker: it reads the log over HTTP, with TLS and a token."""

from __future__ import annotations

from pathlib import Path

import httpx
from pyspark.sql import SparkSession

from tests.broker.certificates import make_certificates
from tests.broker.processes import BrokerProcess
from tests.broker.test_spark_engine import History, committed_pairs
from whimbrel.cli.pipeline.job_display import JobDisplay
from whimbrel.client import Client
from whimbrel.pipeline.connectors.log_place import BrokerAddress, LogPlace
from whimbrel.pipeline.jobs.broker_job import BrokerJob, run_broker_job


def test_a_job_elsewhere_matches_thousands_of_events_while_subscriptions_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = make_certificates(tmp_path / "certificates")
    process = BrokerProcess(tmp_path / "data", engine="spark", spark_job=False, **files.settings)
    with process, httpx.Client(base_url=process.url, verify=files.trusting, timeout=60, trust_env=False) as http:
        root = http.post("/tokens", json={"name": "root", "scopes": ["admin"]}).json()["token"]
        asked, headers = {"name": "spark", "scopes": ["match"]}, {"authorization": f"Bearer {root}"}
        token = http.post("/tokens", json=asked, headers=headers).json()["token"]
        address = BrokerAddress(process.url, token, str(files.authority))
        job = BrokerJob(address, LogPlace(address), tmp_path / "versions", once=True)
        with Client(process.url, root, ca=files.authority) as client:
            history = History(client, seed=8)
            for _ in range(2):
                history.run(15)
                history.publish(1_500)
                history.run(15)  # the next run of the job finds versions that began and ended before it
                run_broker_job(spark, job, JobDisplay(spark, True))
                assert len(history.messages()[0]) == len(history.events)
            assert len(history.versions) > len(history.present)  # some were replaced or deleted
        assert process.stop() == 0
    assert len(history.events) > 3_000
    assert committed_pairs(tmp_path / "data") == history.pairs()
