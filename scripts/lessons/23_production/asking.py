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
        received = b""
        piece = connection.recv(4096)
        while piece:
            received += piece
            piece = connection.recv(4096)
    head, _, body = received.decode().partition("\r\n\r\n")
    if not head:
        return None
    answer, _ = json.JSONDecoder().raw_decode(body)  # the first one, if there are more
    status = int(head.split()[1])
    return status, answer


def one_after_another(port: int, bodies: list[bytes]) -> list[dict]:
    """The answers to these requests on one connection, and the milliseconds of each."""
    connection = HTTPConnection(HOST, port, timeout=10)
    answers = []
    for body in bodies:
        began = time.perf_counter()
        connection.request("POST", "/predict", body, JSON)
        response = connection.getresponse()
        answer = json.loads(response.read())
        seconds = time.perf_counter() - began
        answer |= {"status": response.status, "ms": 1000 * seconds}
        answers.append(answer)
    connection.close()
    return answers


def storm(ports: list[int], bodies: list[bytes], together: int) -> tuple[float, list[dict]]:
    """Seconds and answers, in order, when so many clients share the bodies and ask at once.

    Client number i takes the bodies i, i + together, …, and asks port number i, in turn.
    """
    answers: list[dict] = [{}] * len(bodies)
    began = time.perf_counter()
    with ThreadPoolExecutor(together) as pool:
        jobs = []
        for i in range(together):
            port = ports[i % len(ports)]
            job = pool.submit(one_after_another, port, bodies[i::together])
            jobs.append(job)
        for i, job in enumerate(jobs):
            answers[i::together] = job.result()
    seconds = time.perf_counter() - began
    return seconds, answers
