# mypy: ignore-errors
"""The agent of `platoon-bash`: asks a Chat Completions server, runs the commands it answers with, until it answers without one.

Runs inside task sandboxes as `python3 -I -S platoon_bash.py STATE_DIR BASE_URL MODEL MAX_STEPS TIMEOUT_S OUTPUT_CHARACTERS`, with
the key in PLATOON_API_KEY. Python 3.6 or newer, the standard library alone. Exit codes: 0 done, 2 the model could not be asked,
3 the step limit.

Hundreds of these start each minute, so it imports only modules of the interpreter's core: `json` and `socket` would double its
cost.
"""

import _socket
import os
import select
import sys
import time

try:
    from _json import encode_basestring_ascii as quote
    from _json import make_scanner
except ImportError:  # another interpreter than CPython
    import json

    quote, make_scanner = json.dumps, None

TOOL = (
    '{"type":"function","function":{"name":"bash","description":"Run a bash command.","parameters":'
    '{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}'
)
ROOTS = ("/app", "/tests", "/logs", "/solution", "/tmp")
PIPE_GRACE_S = 1.0
READ_LIMIT = 8 * 1024 * 1024


class Scanner:
    """What the C scanner asks for."""

    strict = False
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = float
    memo = {}


class ModelError(Exception):
    pass


def loads(text):
    if make_scanner is None:
        return json.loads(text)
    text = text.strip()
    value, end = make_scanner(Scanner)(text, 0)
    if end != len(text):
        raise ValueError("text after the JSON value")
    return value


def dumps(value):
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(quote(key) + ":" + dumps(item) for key, item in value.items()) + "}"
    return "[" + ",".join(map(dumps, value)) + "]"


def ask(base_url, key, body):
    """POSTs a body over a connection of its own and returns the decoded answer."""
    scheme, _, rest = base_url.partition("://")
    authority, _, path = rest.partition("/")
    host, _, port = authority.partition(":")
    if scheme != "http":
        raise ModelError("only http:// addresses can be asked, not " + base_url)
    data = body.encode("utf-8")
    head = "POST /%s/v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n" % (path, authority, key)
    head += "Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(data)
    family, kind, protocol, _, address = _socket.getaddrinfo(host, int(port or 80), 0, _socket.SOCK_STREAM)[0]
    connection = _socket.socket(family, kind, protocol)
    try:
        connection.connect(address)
        connection.sendall(head.encode("ascii") + data)
        parts = []
        while True:
            part = connection.recv(65536)
            if not part:
                break
            parts.append(part)
    finally:
        connection.close()
    return read_answer(b"".join(parts))


def read_answer(answer):
    head, separator, payload = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    status = lines[0].split(" ")
    length = [line.partition(":")[2] for line in lines[1:] if line.lower().startswith("content-length:")]
    if not separator or len(status) < 2 or not length or len(payload) != int(length[0]):
        raise ModelError("the answer was cut off")
    text = payload.decode("utf-8", "replace")
    if status[1] != "200":
        raise ModelError("status %s: %s" % (status[1], text[:2000]))
    return loads(text)


def spawn(command, write_end, null):
    """Starts bash as the leader of a session of its own; its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.dup2(null, 0)
        os.dup2(write_end, 1)
        os.dup2(write_end, 2)
        environment = {name: value for name, value in os.environ.items() if name != "PLATOON_API_KEY"}
        os.execvpe("bash", ["bash", "-c", command], environment)
    except BaseException as error:
        os.write(write_end, ("cannot run bash: %s\n" % error).encode())
    finally:
        os._exit(127)


def run(command, timeout_s):
    """(output, exit code or None after a timeout): both streams together, as they came."""
    read_end, write_end = os.pipe()
    null = os.open("/dev/null", os.O_RDONLY)
    pid = spawn(command, write_end, null)
    os.close(write_end)
    os.close(null)
    parts, size, status, open_pipe, wait_s = [], 0, None, True, 0.001
    deadline = time.monotonic() + timeout_s
    while (open_pipe or status is None) and time.monotonic() < deadline:
        if select.select([read_end] if open_pipe else [], [], [], wait_s)[0]:
            part = os.read(read_end, 65536)
            open_pipe = bool(part)
            if size < READ_LIMIT:
                parts.append(part)
                size += len(part)
            if open_pipe:
                continue
        wait_s = min(wait_s * 2, 0.25)
        if status is None:
            done, code = os.waitpid(pid, os.WNOHANG)
            if done:
                # Children left in the background may hold the pipe: what they say later is not waited for.
                status, deadline = code, min(deadline, time.monotonic() + PIPE_GRACE_S)
    os.close(read_end)
    output = b"".join(parts).decode("utf-8", "replace")
    if status is None:
        os.killpg(pid, 9)
        os.waitpid(pid, 0)
        return output, None
    return output, os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def cut(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n[%d characters left out]\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def own_paths(command, root, workdir):
    """A process sandbox has no root of its own: its paths are rewritten to lie below its directory, as its provider does."""
    if not root or "/" not in command:
        return command
    import re

    names = "|".join(re.escape(name) for name in sorted({workdir, *ROOTS}, key=len, reverse=True))
    pattern = r"(%s(?![A-Za-z0-9_.~-]))|(?<![A-Za-z0-9_./~})\]*?%%+@$-])(%s)(?![A-Za-z0-9_.~-])" % (re.escape(root), names)
    return re.sub(pattern, lambda match: match.group() if match.group(1) else root + match.group(2), command)


def tool_result(call, timeout_s, limit, root, workdir):
    function = call.get("function", {})
    if function.get("name") != "bash":
        return "there is no tool %r" % function.get("name")
    try:
        command = loads(function.get("arguments") or "{}")["command"]
    except (ValueError, KeyError, TypeError, StopIteration):
        command = None
    if not isinstance(command, str) or "\0" in command:
        return "Invalid arguments: the bash tool takes a command"
    output, code = run(own_paths(command, root, workdir), timeout_s)
    if root:
        output = output.replace(root + "/", "/").replace(root, "/")
    output = cut(output, limit)
    note = "[timed out after %d s]" % timeout_s if code is None else "[exit code %d]" % code if code else ""
    return output + ("\n" if note and output and not output.endswith("\n") else "") + note


def read(state_dir, name):
    with open(state_dir + "/" + name, encoding="utf-8", newline="") as file:
        return file.read()


def main(state_dir, base_url, model, max_steps, timeout_s, limit):
    key = os.environ["PLATOON_API_KEY"]
    root = os.environ.get("PLATOON_SANDBOX_ROOT", "")
    workdir = os.getcwd()[len(root) :] if root and os.getcwd().startswith(root + "/") else ROOTS[0]
    system = read(state_dir, "system.txt")
    messages = [dumps({"role": "system", "content": system})] if system else []
    messages.append(dumps({"role": "user", "content": read(state_dir, "instruction.txt")}))
    for _ in range(int(max_steps)):
        body = '{"model":%s,"messages":[%s],"tools":[%s]}' % (quote(model), ",".join(messages), TOOL)
        try:
            message = ask(base_url, key, body)["choices"][0]["message"]
        except (ModelError, OSError, ValueError, KeyError, IndexError, TypeError, StopIteration) as error:
            sys.stderr.write("platoon-bash: %s: %s\n" % (type(error).__name__, error))
            return 2
        calls = message.get("tool_calls")
        if not calls:
            with open(state_dir + "/final.txt", "w", encoding="utf-8", newline="") as file:
                file.write(message.get("content") or "")
            return 0
        messages.append(dumps(message))
        for call in calls:
            content = tool_result(call, int(timeout_s), int(limit), root, workdir)
            messages.append(dumps({"role": "tool", "tool_call_id": call["id"], "content": content}))
    sys.stderr.write("platoon-bash: the limit of %s steps\n" % max_steps)
    return 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:7]))
