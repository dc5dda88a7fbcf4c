"""A real S3 server on loopback, and a log of the requests that it received."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rlpanel.sources.files import remote

BUCKET = "trainings"
#: Test credentials, one attempt per request, and none of the user's own settings.
SETTINGS = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "RLPANEL_REMOTE_INTERVAL": "0.05",
}


def _serve(port: int) -> Any:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    return server


class Bucket:
    """A bucket that is written like a trainer's uploads: each object whole, replacing the one before."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="rlpanel-s3-")  # deleted with the process
        self.log = Path(self._folder.name) / "requests"
        self._server = _serve(0)
        self._port = self._server.get_host_and_port()[1]
        self.endpoint = f"http://127.0.0.1:{self._port}"

    def begin(self) -> None:
        """Empty the bucket; the environment must contain the server's address."""
        import boto3

        self._s3 = boto3.client("s3", endpoint_url=self.endpoint)
        self._s3.create_bucket(Bucket=BUCKET)

    def put(self, key: str, *lines: bytes) -> None:
        """Write an object."""
        self._s3.put_object(Bucket=BUCKET, Key=key, Body=b"".join(lines))

    def put_all(self, folder: Path, prefix: str) -> str:
        """Write a folder's files and return their common URL."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"s3://{BUCKET}/{prefix}"

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._s3.delete_object(Bucket=BUCKET, Key=key)

    def stop(self) -> None:
        """Stop answering; stored objects stay."""
        self._server.stop()

    def start(self) -> None:
        """Answer again, at the same address."""
        self._server = _serve(self._port)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Require credentials inside of ``with``, so that all requests are refused."""
        import requests

        switch = f"{self.endpoint}/moto-api/reset-auth"
        requests.post(switch, data=b"0", timeout=10).raise_for_status()
        try:
            yield
        finally:
            requests.post(switch, data=b"inf", timeout=10).raise_for_status()

    @contextmanager
    def asked(self) -> Iterator[list[tuple[str, str, str]]]:
        """Collect the requests made inside of ``with``: method, path, range of bytes."""
        from moto.moto_api import recorder

        found: list[tuple[str, str, str]] = []
        recorder.reset_recording()
        recorder.start_recording()
        try:
            yield found
        finally:
            recorder.stop_recording()
            for entry in map(json.loads, self.log.read_text().splitlines()):
                found.append((entry["method"], entry["url"], entry["headers"].get("Range", "")))


@cache
def _only_server() -> Bucket:
    """The only server of this process.

    Its clients and its recorder keep their first address and file, so they would not use a second server.
    Workers that share test modules can leave a module and enter it again.
    """
    return Bucket()


@contextmanager
def serving(folder: Path) -> Iterator[Bucket]:
    """A server, and an environment in which S3 clients use it; ``folder`` is the cache folder."""
    bucket = _only_server()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
            patch.delenv(name)
        patch.setenv("MOTO_RECORDER_FILEPATH", str(bucket.log))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
        bucket.begin()
        remote.clear_stores()
        yield bucket
        remote.clear_stores()
