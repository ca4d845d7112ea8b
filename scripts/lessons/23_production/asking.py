"""Ask our server, as its clients do: once, wrongly on purpose, or many at a time.

`from asking import ask, raw, storm`
"""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

HOST = "127.0.0.1"
JSON = {"Content-Type": "application/json"}


def ask(
    port: int, body: bytes, path: str = "/predict", method: str = "POST", headers: dict = JSON
) -> tuple[int, dict]:
    """Status and answer of one request on a connection of its own."""
    connection = HTTPConnection(HOST, port, timeout=10)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text)


def raw(port: int, data: bytes, ends: bool = False) -> tuple[int, dict] | None:
    """What the server says to these bytes, whatever they are; None if it says nothing.

    With `ends`, our side of the connection is closed behind them.
    """
    with socket.create_connection((HOST, port), timeout=10) as connection:
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        pieces = list(iter(lambda: connection.recv(4096), b""))
    head, _, body = b"".join(pieces).decode().partition("\r\n\r\n")
    if not head:
        return None
    answer, _ = json.JSONDecoder().raw_decode(body)  # the first one, if there are more
    return int(head.split()[1]), answer


def one_after_another(port: int, bodies: list[bytes]) -> list[dict]:
    """The answers to these requests on one connection, and the milliseconds of each."""
    connection = HTTPConnection(HOST, port, timeout=10)
    answers = []
    for body in bodies:
        began = time.perf_counter()
        connection.request("POST", "/predict", body, JSON)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        found |= {"status": answer.status, "ms": 1000 * (time.perf_counter() - began)}
        answers.append(found)
    connection.close()
    return answers


def storm(ports: list[int], bodies: list[bytes], together: int) -> tuple[float, list[dict]]:
    """Seconds and answers, in order, when so many clients share the bodies and ask at once.

    Client number i takes the bodies i, i + together, …, and asks port number i, in turn.
    """
    answers: list[dict] = [{}] * len(bodies)
    began = time.perf_counter()
    with ThreadPoolExecutor(together) as pool:
        jobs = [
            pool.submit(one_after_another, ports[i % len(ports)], bodies[i::together])
            for i in range(together)
        ]
        for i, job in enumerate(jobs):
            answers[i::together] = job.result()
    return time.perf_counter() - began, answers
