"""A small S3 server of its own: fast, with latency, and with the faults that a test asks for.

Moto, which `tests.s3` runs, knows all of S3 but takes 20 ms a request. This server knows what a log reader
needs: listing by prefix, ranges, conditions, and writing whole objects. Requests need no valid signature.

python -m tests.small_s3 [LATENCY]
    Prints its port, and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.client import HTTPConnection
from typing import Self
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

#: Environment of a client of the server.
SETTINGS = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
#: Objects of a page of a listing, as S3 has them.
PAGE = 1000


@dataclass(frozen=True)
class Stored:
    """An object: its bytes, their signature, and when they were written."""

    data: bytes
    etag: str
    written: float


@dataclass
class Fault:
    """Answers of the server that replace the next ``count`` ones to requests of these methods and paths."""

    status: int
    code: str
    count: int
    method: str = "GET"
    part: str = ""


@dataclass
class SmallS3:
    """Objects of one bucket, served over HTTP on loopback.

    Attributes
    ----------
    latency : float
        Seconds before each answer.
    listing : dict or None
        Objects that listings show instead of the real ones, as a storage whose listings lag behind.
    faults : list of Fault
    counted : Counter
        Number of requests by kind: ``list``, ``get``, ``head``, ``put``, ``delete``.
    """

    bucket: str = "trainings"
    latency: float = 0.0
    objects: dict[str, Stored] = field(default_factory=dict)
    listing: dict[str, Stored] | None = None
    faults: list[Fault] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    port: int = 0
    keys: list[str] = field(default_factory=list)

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        if key not in self.objects:
            self.keys = []
        self.objects[key] = Stored(data, f'"{hashlib.md5(data).hexdigest()}"', time.time())

    def environment(self) -> dict[str, str]:
        """Return the environment of a client."""
        return SETTINGS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}

    async def serve(self) -> asyncio.Server:
        """Begin to serve on a free port."""
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        return server

    @contextmanager
    def serving(self) -> Iterator[Self]:
        """Serve from a thread inside of ``with``."""
        loop, ready = asyncio.new_event_loop(), threading.Event()

        def work() -> None:
            asyncio.set_event_loop(loop)
            server = loop.run_until_complete(self.serve())
            ready.set()
            loop.run_forever()
            server.close()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(asyncio.sleep(0.01))  # connections close
            loop.close()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        ready.wait(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)

    # -- the protocol ----------------------------------------------------------------------------

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ", 2)
                pairs = (line.partition(":") for line in head[1:] if line)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                if headers.get("expect"):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(headers.get("content-length") or 0))
                if self.latency:
                    await asyncio.sleep(self.latency)
                writer.write(self._answer(method, target, headers, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
        parts = urlsplit(target)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        is_list = method == "GET" and not key
        self.counted["list" if is_list else method.lower()] += 1
        for fault in self.faults:
            if fault.count > 0 and fault.method in (method, "LIST" if is_list else "") and fault.part in key:
                fault.count -= 1
                return _error(fault.status, fault.code, head=method == "HEAD")
        if bucket != self.bucket:
            return _error(404, "NoSuchBucket", head=method == "HEAD")
        if is_list:
            return self._list(query)
        if method == "POST" and "delete" in query:
            keys = [unescape(each) for each in re.findall(r"<Key>([^<]*)</Key>", body.decode())]
            for each in keys:
                self.objects.pop(each, None)
            self.keys = []
            gone = "".join(f"<Deleted><Key>{escape(each)}</Key></Deleted>" for each in keys)
            return _reply(200, f"<DeleteResult>{gone}</DeleteResult>".encode())
        if method == "PUT":
            return self._put(key, headers, body)
        if method == "DELETE":
            self.objects.pop(key, None)
            self.keys = []
            return _reply(204)
        return self._get(key, headers, head=method == "HEAD")

    def _list(self, query: dict[str, str]) -> bytes:
        objects = self.objects if self.listing is None else self.listing
        if self.listing is not None or not self.keys:
            self.keys = sorted(objects)
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after") or ""
        most = int(query.get("max-keys") or PAGE)
        found: list[str] = []
        folders: dict[str, None] = {}
        last = token = ""
        for key in self.keys[bisect_left(self.keys, max(prefix, after)) :]:
            if not key.startswith(prefix):
                break
            if key <= after or (last and last.endswith("/") and key.startswith(last)):
                continue
            if len(found) + len(folders) >= most:
                token = last
                break
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                last = prefix + rest.partition(delimiter)[0] + delimiter
                folders[last] = None
                continue
            stored, last = objects[key], key
            when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stored.written))
            found.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
                f"<ETag>{escape(stored.etag)}</ETag><Size>{len(stored.data)}</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{self.bucket}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>{most}</MaxKeys>"
            f"<KeyCount>{len(found) + len(folders)}</KeyCount>"
            f"<IsTruncated>{str(bool(token)).lower()}</IsTruncated>"
            + (f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else "")
            + "".join(found)
            + "".join(f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in folders)
            + "</ListBucketResult>"
        )
        return _reply(200, text.encode(), {"Content-Type": "application/xml"})

    def _get(self, key: str, headers: dict[str, str], *, head: bool) -> bytes:
        stored = self.objects.get(key)
        if stored is None:
            return _error(404, "NoSuchKey", head=head)
        said = {"ETag": stored.etag, "Last-Modified": formatdate(stored.written, usegmt=True)}
        said |= {"Accept-Ranges": "bytes", "Content-Type": "binary/octet-stream"}
        if headers.get("if-match", stored.etag).strip('"') != stored.etag.strip('"'):
            return _error(412, "PreconditionFailed", head=head)
        if headers.get("if-none-match", "").strip('"') == stored.etag.strip('"'):
            return _reply(304, b"", said)
        data, status, size = stored.data, 200, len(stored.data)
        if span := headers.get("range", "").removeprefix("bytes="):
            first, _, end = span.partition("-")
            start = int(first) if first else max(0, size - int(end))
            stop = min(size, int(end) + 1) if first and end else size
            if start >= size:
                return _error(416, "InvalidRange", head=head)
            data, status = data[start:stop], 206
            said["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        return _reply(status, data, said, head=head)

    def _put(self, key: str, headers: dict[str, str], body: bytes) -> bytes:
        stored = self.objects.get(key)
        if headers.get("if-none-match") == "*" and stored is not None:
            return _error(412, "PreconditionFailed")
        expected = headers.get("if-match")
        if expected and (stored is None or stored.etag.strip('"') != expected.strip('"')):
            return _error(412, "PreconditionFailed")
        self.put(key, body)
        return _reply(200, b"", {"ETag": self.objects[key].etag})


def _reply(
    status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, head: bool = False
) -> bytes:
    said = {"Content-Length": str(len(body)), "x-amz-request-id": "1", **(headers or {})}
    if status in (204, 304):
        said.pop("Content-Length")
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode("latin-1") + (b"" if head else body)


def _error(status: int, code: str, *, head: bool = False) -> bytes:
    text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code} is said</Message></Error>'
    return _reply(status, text.encode(), {"Content-Type": "application/xml"}, head=head)


def upload(port: int, objects: dict[str, bytes], bucket: str = "trainings") -> None:
    """Write objects to a server in another process."""
    connection = HTTPConnection("127.0.0.1", port)
    for key, data in objects.items():
        connection.request("PUT", f"/{bucket}/{quote(key)}", data)
        connection.getresponse().read()
    connection.close()


async def _main() -> None:
    server = SmallS3(latency=float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
    await server.serve()
    print(server.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
