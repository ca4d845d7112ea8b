"""Ask Kaggle what became of a notebook: its state, its log, and the record that it left.

The official client says where a file is; the file is fetched here, since the client checks neither
its status nor its name, has no time limit, and tries nothing again. Only one file of each notebook
is wanted, so no name of the server's ever becomes a path.
"""

import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

import requests
from requests import RequestException
from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidJSONError
from urllib3.util import Retry

from course.evidence.judge import MOST as LOG
from course.evidence.judge import plain
from course.evidence.record import MOST

LIMIT = (10.0, 60.0)  # seconds to connect, and from one piece of an answer to the next
WHOLE = 300.0  # seconds for a whole file
PAGES, FILES = 100, 5000  # of a list of files that are looked at
AGAIN = (429, 500, 502, 503, 504)
RUNNING = ("QUEUED", "RUNNING", "NEW_SCRIPT", "CANCEL_REQUESTED")
ENDED = ("COMPLETE", "ERROR", "CANCEL_ACKNOWLEDGED")
EXPIRED = "Kaggle does not know you any more: log in with `.venv/bin/kaggle auth login`"


class State(NamedTuple):
    """A state of ENDED or RUNNING, and what Kaggle says of a failure."""

    name: str
    failure: str = ""


class Brought(NamedTuple):
    """What a notebook left: its log, and its record, if it has any."""

    log: str
    record: bytes | None


class FetchError(Exception):
    """Kaggle gives no answer that can be used; `final` if it would not later, either."""

    def __init__(self, said: str, final: bool = False):
        super().__init__(said)
        self.final = final


class ExpiredError(FetchError):
    """No answer can be had about any notebook."""


class Limited(HTTPAdapter):
    """Waits for no answer longer than LIMIT."""

    def send(self, request, **options):
        options["timeout"] = options.get("timeout") or LIMIT
        return super().send(request, **options)


class Patient(Limited):
    """Tries again where a server is busy, as late as it asks for; each wait has an end."""

    def __init__(self, pause: float):
        retry = Retry(
            total=4,
            status_forcelist=AGAIN,
            allowed_methods=None,  # what is asked here changes nothing, by POST either
            backoff_factor=min(1.0, pause),
            retry_after_max=int(60 * min(1.0, pause)) or 1,
            raise_on_status=False,
        )
        super().__init__(max_retries=retry)


def mount(session: requests.Session, adapter: HTTPAdapter) -> None:
    session.mount("http://", adapter)
    session.mount("https://", adapter)


def limit_waiting() -> None:
    """Give all requests of the official client a time limit, those of its log-in and pushes too."""
    from kagglesdk.kaggle_http_client import KaggleHttpClient

    usual = KaggleHttpClient._init_session

    def begin(client: KaggleHttpClient) -> None:
        is_new = client._session is None
        usual(client)
        if is_new:
            mount(client._session, Limited())

    KaggleHttpClient._init_session = begin


def told(error: Exception) -> FetchError:
    """What an exception of the client, or of requests, means for whoever waits."""
    answer = getattr(error, "response", None)
    status = answer.status_code if answer is not None else 0
    if status == HTTPStatus.UNAUTHORIZED:
        return ExpiredError(EXPIRED)
    if status in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return FetchError("it is not on Kaggle any more, or not under this name", final=True)
    if status >= HTTPStatus.BAD_REQUEST:
        return FetchError(f"Kaggle answers with status {status}")
    if isinstance(error, RequestException) and not isinstance(error, InvalidJSONError):
        return FetchError(f"Kaggle does not answer ({type(error).__name__})")
    return FetchError(f"Kaggle's answer cannot be read ({type(error).__name__})")


class Kaggle:
    """The calls that ask. `pause`: seconds between two looks."""

    def __init__(self, api, pause: float):
        client = api.build_kaggle_client()
        http = client.http_client()
        http._init_session()  # with the credentials; there is no public way to it
        self.calls = client.kernels.kernels_api_client
        self.files = requests.Session()  # without credentials: files are on other servers
        mount(http._session, Patient(pause))
        mount(self.files, Patient(pause))

    def ask(self, call: str, kernel: str, **more: object):
        """The answer of one call about a notebook; FetchError without one."""
        from kagglesdk.kernels.types import kernels_api_service as types

        name = "".join(part.title() for part in call.split("_"))
        request = getattr(types, f"Api{name}Request")()
        request.user_name, request.kernel_slug = kernel.split("/")
        for field, value in more.items():
            setattr(request, field, value)
        try:
            return getattr(self.calls, call)(request)
        except Exception as error:  # the client reads an answer that is no JSON in a dozen ways
            raise told(error) from error

    def state(self, kernel: str) -> State:
        answer = self.ask("get_kernel_session_status", kernel)
        name = getattr(answer.status, "name", str(answer.status))
        if name not in (*RUNNING, *ENDED):
            raise FetchError(f"Kaggle names a state that is not known here ({plain(name)})")
        return State(name, plain(answer.failure_message or ""))

    def pages(self, call: str, kernel: str) -> Iterator:
        """The answers of a call that lists files, until there are no more, or far too many."""
        token = ""
        seen = 0
        for _ in range(PAGES):
            more = {"page_size": 100} | ({"page_token": token} if token else {})
            answer = self.ask(call, kernel, **more)
            yield answer
            seen += len(answer.files)
            token = str(answer.next_page_token or "")
            if not token or seen > FILES:
                break

    def size(self, kernel: str, wanted: str) -> int:
        """How many bytes a file has, as far as Kaggle lists it; else 0."""
        try:
            for answer in self.pages("list_kernel_files", kernel):
                for file in answer.files:
                    if file.name == wanted:
                        return int(file.size)
        except ExpiredError:
            raise
        except (FetchError, AttributeError, TypeError):
            pass  # the record itself is checked whatever the list is worth
        return 0

    def bring(self, kernel: str, wanted: str) -> Brought:
        """The log of the newest version, and its file of the wanted name, whole."""
        log = None
        try:
            for answer in self.pages("list_kernel_session_output", kernel):
                if log is None:
                    log = str(answer.log or "")[:LOG]
                for file in answer.files:
                    if file.file_name == wanted:
                        return Brought(log, self.whole(kernel, wanted, str(file.url)))
        except (AttributeError, TypeError) as error:
            raise told(error) from error
        return Brought(log or "", None)

    def whole(self, kernel: str, wanted: str, address: str) -> bytes:
        """A file that has as many bytes as Kaggle lists, where it lists any."""
        content = self.download(address)
        size = self.size(kernel, wanted)
        if size and size != len(content):
            came = f"the record came with {len(content):,} bytes"
            raise FetchError(f"{came}, and Kaggle lists {size:,}")
        return content

    def download(self, address: str) -> bytes:
        """A whole file of a record's size at most."""
        place = urlsplit(address)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise FetchError(f"Kaggle gives no address for the record ({plain(address)[:60]})")
        deadline = time.monotonic() + WHOLE
        content = b""
        headers = {"Accept-Encoding": "identity"}
        try:
            with self.files.get(address, headers=headers, stream=True, timeout=LIMIT) as answer:
                answer.raise_for_status()
                for piece in answer.iter_content(65536):
                    content += piece
                    if len(content) > MOST:
                        raise FetchError(f"the record has more than {MOST:,} bytes", final=True)
                    if time.monotonic() > deadline:
                        raise FetchError(f"the record was not here after {WHOLE:g} s")
        except (RequestException, ValueError) as error:
            if getattr(error, "response", None) is not None:
                status = error.response.status_code
                raise FetchError(f"the record cannot be fetched (status {status})") from error
            raise FetchError(f"the record came in part only ({type(error).__name__})") from error
        return content
