"""Requests to S3 through obstore, whose client is written in Rust: a tenth of the CPU time of s3fs.

Credentials, region and endpoint are those of the ``aws`` command: botocore finds them, as for s3fs. What
obstore cannot do raises `Unsuitable`, and fsspec takes over: a bucket in another region, keys with empty
parts, and settings of fsspec's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from rlpanel.sources.files.storage_requests import AT_ONCE, Info, Piece, Span

#: Seconds after which credentials are asked for again: they may have been renewed.
_ASK_AGAIN = 300.0
#: Attempts for one request, unless AWS_MAX_ATTEMPTS says how many, and their seconds together.
_ATTEMPTS, _SECONDS = 4, 20.0
#: Codes of answers to credentials that were valid once.
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "RequestExpired", "InvalidToken")
_REFUSED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AllAccessDisabled")
_CODE = re.compile(r"<Code>(\w+)</Code>(?:\s*<Message>([^<]*)</Message>)?")


class Unsuitable(Exception):
    """obstore cannot read this bucket."""


class ExpiredCredentials(OSError):
    """The credentials were valid once."""


class S3Requests:
    """Requests to one bucket.

    Parameters
    ----------
    url : str
        URL of any file or folder in it.

    Raises
    ------
    Unsuitable
        If obstore or botocore is not installed, or fsspec has settings for S3.
    """

    is_batched = True

    def __init__(self, url: str) -> None:
        try:
            import botocore.session  # noqa: F401
            import fsspec.config
            import obstore  # noqa: F401
        except ImportError as error:
            raise Unsuitable(str(error)) from error
        settings = dict(fsspec.config.conf.get("s3", {}))
        self._is_anonymous = str(settings.pop("anon", "")).lower() in ("true", "1")
        if settings:
            raise Unsuitable("fsspec has settings of its own")
        self._bucket = url.split("/", 3)[2]

    def path(self, url: str) -> str:
        """Return bucket and key."""
        return url.partition("://")[2].rstrip("/")

    def list(self, url: str) -> Sequence[Info]:
        """Return the entries of a folder; FileNotFoundError if there are none."""
        import obstore

        key = self._key(url)
        found = self._try(lambda: obstore.list_with_delimiter(self._store, key or None))
        entries: list[Info] = [
            {"name": f"{self._bucket}/{prefix}", "type": "directory"} for prefix in found["common_prefixes"]
        ]
        entries += [self._info_of(meta) for meta in found["objects"]]
        if not entries and key:
            if self._is_object(url):
                raise NotADirectoryError(key)
            raise FileNotFoundError(key)
        return entries

    def find(self, url: str, most: int) -> Sequence[Info] | None:
        """Return all objects below a folder; None if there are more than ``most``."""
        import obstore

        def work() -> list[Info] | None:
            found: list[Info] = []
            for page in obstore.list(self._store, self._key(url) or None, chunk_size=1000):
                found += map(self._info_of, page)
                if len(found) > most:
                    return None
            return found

        return self._try(work)

    def info(self, url: str) -> Info:
        """Return the description of an object."""
        import obstore

        return self._info_of(self._try(lambda: obstore.head(self._store, self._key(url))))

    def read(self, span: Span) -> Piece:
        """Return a range of bytes and their version; no bytes if the object has become shorter."""
        import obstore

        def work() -> Piece:
            options: Any = {"range": (span.start, span.end)} if span.end > span.start else {"head": True}
            answer = obstore.get(self._store, self._key(span.url), options=options)
            return Piece(span.start, bytes(answer.bytes()), self._info_of(answer.meta))

        try:
            return self._try(work)
        except ValueError:  # the range begins after the end
            return Piece(span.start, b"", self.info(span.url))

    def read_many(self, spans: Sequence[Span]) -> Sequence[Piece | BaseException]:
        """Return ranges of many objects; after a failure of the storage, the rest is not asked for."""
        failed: list[BaseException] = []

        def read(span: Span) -> Piece | BaseException:
            if failed:
                return failed[0]
            try:
                return self.read(span)
            except (FileNotFoundError, PermissionError) as error:  # of this object alone
                return error
            except Exception as error:
                failed.append(error)
                return error

        if len(spans) == 1:
            return [read(spans[0])]
        return list(self._pool.map(read, spans))

    def put(self, url: str, data: bytes, expected: str | None = None) -> str:
        """Write an object if it still has the version that the caller knows; return its new version.

        Parameters
        ----------
        url : str
        data : bytes
        expected : str, optional
            Its ETag; empty if it must not exist. Without it any object is replaced.

        Raises
        ------
        FileExistsError
            If it has another version by now.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if expected == "" else {"e_tag": expected} if expected else "overwrite"
        try:
            return str(self._try(lambda: obstore.put(self._store, self._key(url), data, mode=mode))["e_tag"])
        except OSError as error:
            if isinstance(error.__cause__, (AlreadyExistsError, PreconditionError)):
                raise FileExistsError(url) from error
            raise

    def delete(self, url: str) -> None:
        """Delete an object."""
        import obstore

        self._try(lambda: obstore.delete(self._store, self._key(url)))

    # -- inside ----------------------------------------------------------------------------------

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """Threads for requests; they are kept, since to start them takes as long as some requests."""
        return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="rlpanel-s3")

    @cached_property
    def _store(self) -> Any:
        """The client, shared by all threads; made again after the credentials have expired."""
        from botocore.configprovider import ConfiguredEndpointProvider
        from botocore.session import Session
        from obstore.store import S3Store

        session = Session()
        endpoint = ConfiguredEndpointProvider(
            full_config=session.full_config, scoped_config=session.get_scoped_config(), client_name="s3"
        ).provide()
        attempts = int(os.environ.get("AWS_MAX_ATTEMPTS") or _ATTEMPTS)
        region = session.get_config_variable("region") or "us-east-1"
        options: dict[str, Any] = {"region": region, "skip_signature": self._is_anonymous}
        if endpoint:
            options["endpoint"] = endpoint
        if not self._is_anonymous:
            options["credential_provider"] = _Credentials(session)
        return S3Store(
            self._bucket,
            client_options={"allow_http": True, "timeout": timedelta(seconds=60)},
            retry_config={"max_retries": attempts - 1, "retry_timeout": timedelta(seconds=_SECONDS)},
            **options,
        )

    def _key(self, url: str) -> str:
        return self.path(url).partition("/")[2]

    def _is_object(self, url: str) -> bool:
        try:
            self.info(url)
        except FileNotFoundError:
            return False
        return True

    def _info_of(self, meta: Any) -> Info:
        return {
            "name": f"{self._bucket}/{meta['path']}",
            "type": "file",
            "size": meta["size"],
            "ETag": meta["e_tag"],
            "LastModified": meta["last_modified"],
        }

    def _try(self, request: Any) -> Any:
        """Run a request; its errors become those of the system, with the code that S3 answered."""
        from obstore.exceptions import (
            BaseError,
            InvalidPathError,
            NotFoundError,
            PermissionDeniedError,
            UnauthenticatedError,
        )

        try:
            return request()
        except InvalidPathError as error:
            raise Unsuitable(str(error)) from error
        except BaseError as error:
            text = str(error)
            code, message = match.groups() if (match := _CODE.search(text)) else ("", "")
            reason = f"{code}: {message}" if message else code or _cause(text)
            if code in _EXPIRED:
                self.__dict__.pop("_store", None)
                raise ExpiredCredentials(f"the credentials have expired ({reason})") from error
            if isinstance(error, NotFoundError) or code in ("NoSuchBucket", "NoSuchKey"):
                missing = "the bucket does not exist" if code == "NoSuchBucket" else reason
                raise FileNotFoundError(missing) from error
            if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or code in _REFUSED:
                raise PermissionError(reason) from error
            if code == "InvalidRange" or "416 " in text:
                raise ValueError(reason) from error
            if "edirect" in code + text or "empty path segment" in text:
                raise Unsuitable(reason) from error
            raise OSError(reason) from error


class _Credentials:
    """Credentials of a botocore session as obstore asks for them."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self) -> dict[str, Any]:
        from botocore.exceptions import NoCredentialsError

        found = self._session.get_credentials()
        if found is None:
            raise NoCredentialsError
        frozen = found.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=_ASK_AGAIN),
        }


def _cause(text: str) -> str:
    """Return the innermost message of an error of obstore, without the time that the request took."""
    return text.split("Debug source:")[0].strip().rpartition(" - ")[2].splitlines()[0][:200]
