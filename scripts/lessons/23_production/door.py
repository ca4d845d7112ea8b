"""What may come in: one picture as JSON, over HTTP, within limits. Everything else is refused.

`Door(answer).connection` is for asyncio.start_server; nothing here needs PyTorch.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain

HEAD = 4096  # bytes at most before the empty line
BODY = 65536  # bytes of JSON at most; a picture has about 15,000
SECONDS = 2.0  # until a request begins, and then again for all of it, our answer included
OPEN = 128  # connections at most
HOSTS = ("127.0.0.1", "localhost")  # what we may be called; a web page could use another name


class Refused(Exception):
    """A status of HTTP, and a sentence for the one who asked."""

    def __init__(self, status: int, reason: str):
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


def picture(body: bytes) -> list[int]:
    """The 3 × 32 × 32 numbers in a body, one after the other; Refused unless it is just that."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(request, dict) or set(request) != {"picture"}:
        raise Refused(422, 'the body must be {"picture": …} and nothing else')
    parts = [request["picture"]]
    for size in (3, 32, 32):  # colours, rows, columns
        if not all(isinstance(part, list) and len(part) == size for part in parts):
            raise Refused(422, "a picture is 3 lists of 32 lists of 32 numbers")
        parts = list(chain.from_iterable(parts))
    if not all(type(number) is int and 0 <= number <= 255 for number in parts):
        raise Refused(422, "the numbers must be whole, from 0 to 255")  # and True is no number
    return parts


def headers_of(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, path and headers of a request, the names in small letters; ValueError if none."""
    first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
    method, path, version = first.split(" ")
    pairs = [line.split(":", 1) for line in lines]
    headers = {name.lower(): value.strip() for name, value in pairs}
    if version != "HTTP/1.1" or len(headers) < len(lines):
        raise ValueError("another version, or a header that comes twice")
    return method, path, headers


async def arrive(first: bytes, reader: asyncio.StreamReader) -> bytes:
    """The body of the request that begins with `first`; Refused if it is not one for us."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, headers = headers_of(first + head)
    except asyncio.LimitOverrunError:
        raise Refused(431, f"more than {HEAD} bytes of headers") from None
    except ValueError:
        raise Refused(400, "this is not HTTP/1.1") from None
    if headers.get("host", "").partition(":")[0] not in HOSTS:
        raise Refused(421, f"the Host must be {' or '.join(HOSTS)}")
    if path != "/predict":
        raise Refused(404, "there is only /predict")
    if method != "POST":
        raise Refused(405, "send a picture with POST")
    if headers.get("content-type") != "application/json":
        raise Refused(415, "Content-Type must be application/json")
    length = headers.get("content-length", "")
    if not length.isdecimal() or "transfer-encoding" in headers:
        raise Refused(411, "Content-Length must say how many bytes follow")
    if len(length) > 9 or int(length) > BODY:
        raise Refused(413, f"more than {BODY} bytes")
    return await reader.readexactly(int(length))


def reply(status: int, answer: dict, more: bool) -> bytes:
    """An answer as it goes over the wire. Unless `more` may follow, the connection is closed."""
    body = json.dumps(answer).encode()
    lines = [
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Refused'}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Connection: {'keep-alive' if more else 'close'}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def rest(reader: asyncio.StreamReader) -> None:
    """Read what the other side still sends, and forget it."""
    while await reader.read(HEAD):
        pass


class Door:
    """Lets pictures in to `answer`, which says in a dict what is on them."""

    def __init__(self, answer: Callable[[list[int]], Awaitable[dict]]):
        self.answer = answer
        self.open = 0  # connections
        self.ending = False  # True: the next answer on each connection is its last
        self.statuses: Counter = Counter()  # how often each was given

    async def turn(self, first: bytes, reader: asyncio.StreamReader) -> tuple[int, dict]:
        """Status and answer of the request that begins with `first`, whatever it is."""
        try:
            async with asyncio.timeout(SECONDS):
                numbers = picture(await arrive(first, reader))
                return 200, await self.answer(numbers)
        except Refused as refused:
            return refused.status, {"error": refused.reason}
        except TimeoutError:
            return 408, {"error": f"not done within {SECONDS:.0f} s"}

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request after another, until the other side has none or breaks a rule."""
        self.open += 1
        crowded = self.open > OPEN  # whoever came before may stay
        more = True
        try:
            with suppress(asyncio.IncompleteReadError, OSError):  # the other side has gone
                while more:
                    turn = (503, {"error": "too many connections"})
                    if not crowded:
                        # Without a request no answer: it would be taken for that to the next one.
                        first = await asyncio.wait_for(reader.readexactly(1), SECONDS)
                        turn = await self.turn(first, reader)
                    status, answer = turn
                    more = status == 200 and not self.ending
                    self.statuses[status] += 1
                    writer.write(reply(status, answer, more))
                    await asyncio.wait_for(writer.drain(), SECONDS)  # it has to be read, too
                # To close with bytes unread would break the connection off, and our answer with it.
                writer.write_eof()
                await asyncio.wait_for(rest(reader), SECONDS)
        finally:
            self.open -= 1
            writer.close()
