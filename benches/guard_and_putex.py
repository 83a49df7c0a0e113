#!/usr/bin/env python3
"""Three agents of `tenure guard` and of putex beside each other, with the same scripts, times and faults.

    benches/guard_and_putex.py --tenure target/release/tenure --putex DIR/bin/putex --nats .tools/bin/nats-server

Prints a table: how long until another agent is active, for how long two were, and what became of the
old one. Every set-up has a server, a directory and a cut-off switch (a proxy for each agent) of its own.
"""

import argparse, json, os, shutil, signal, socket, statistics, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import threading

FAULTS = {
    "kill": "kill -9 of the active's agent",
    "stop": "SIGSTOP of it for 30 s",
    "cut": "its connection cut for 30 s",
    "server": "server killed for 30 s",
    "health": "its check fails",
}
PAUSE = 30.0  # how long a fault lasts that ends
AFTER = 15.0  # how long is looked on after that

SCRIPTS = {
    "healthcheck": '[ ! -e "$DIR/unhealthy-$ID" ]',
    # A service that is a file. Both scripts may be run again and again.
    "activate": '[ -e "$DIR/on-$ID" ] || { : >"$DIR/on-$ID"; read up _ </proc/uptime; echo "$up on $ID" >>"$DIR/log"; }',
    "deactivate": '[ ! -e "$DIR/on-$ID" ] || { rm "$DIR/on-$ID"; read up _ </proc/uptime; echo "$up off $ID" >>"$DIR/log"; }',
}


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Proxy:
    """Passes bytes on until it is cut: then it neither forwards nor takes new connections."""

    def __init__(self, target):
        self.target, self.is_cut, self.pairs = target, False, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                if self.is_cut:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                if self.listener.fileno() < 0:
                    return
                client.close()
                continue
            self.pairs += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    def pump(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        self.is_cut = True
        for end in self.pairs:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.pairs = []

    def heal(self):
        self.is_cut = False


class Setup:
    def __init__(self, kind, args):
        self.kind, self.args = kind, args
        self.dir = Path(tempfile.mkdtemp(prefix=f"guard-{kind}-"))
        self.port, self.processes = free_port(), []
        self.start_server()
        self.agents = {}
        for name in ("a", "b", "c"):
            proxy = Proxy(self.port)
            self.agents[name] = (self.start_agent(name, proxy), proxy)

    def spawn(self, command, log, **more):
        log = open(self.dir / log, "ab")
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **more)

    def start_server(self):
        if self.kind == "putex":
            command = [self.args.nats, "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.dir / "js")]
        else:
            command = [self.args.tenure, "serve", "--listen", f"127.0.0.1:{self.port}", "--data-dir", str(self.dir / "data"),
                       # A client prefers the address that the server names, and would go around its proxy.
                       "--set", "node.advertise_url=http://127.0.0.1:9"]
        self.server = self.spawn(command, "server.log")
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                time.sleep(0.3)
                return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"no server: {command}")

    def start_agent(self, name, proxy):
        env = dict(os.environ, DIR=str(self.dir), ID=name)
        if self.kind == "putex":
            command = [self.args.putex, "--nats", f"nats://127.0.0.1:{proxy.port}", "--bucket", "guard", "--key", "service",
                       "--token", name, "--healthcheck", SCRIPTS["healthcheck"], "--start", SCRIPTS["activate"],
                       "--stop", SCRIPTS["deactivate"], "-r", "3000", "-f", "3", "-c", "2"]
        else:
            command = [self.args.tenure, "--server", f"http://127.0.0.1:{proxy.port}", "guard", "--key", "service",
                       "--owner", name, "-r", "3s", "-f", "3", "-c", "2"]
            for script, line in SCRIPTS.items():
                command += [f"--{script}", line]
        return self.spawn(command, f"agent-{name}.log", env=env)

    def log(self):
        path = self.dir / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(float(at), what, who) for at, what, who in map(str.split, lines)]

    def active(self):
        return [name for name in self.agents if (self.dir / f"on-{name}").exists()]

    def wait_active(self, limit):
        end = now() + limit
        while now() < end:
            if len(self.active()) == 1:
                return self.active()[0]
            time.sleep(0.1)
        return None

    def end(self):
        for process, proxy in self.agents.values():
            for sign in (signal.SIGCONT, signal.SIGKILL):
                try:
                    process.send_signal(sign)
                except OSError:
                    pass
            process.wait()
            proxy.cut()
            proxy.listener.close()
        self.server.kill()
        self.server.wait()
        time.sleep(1)
        if not self.args.keep:
            shutil.rmtree(self.dir, ignore_errors=True)


def overlap(log, end):
    """Seconds with more than one active."""
    on, total, last = set(), 0.0, None
    for at, what, who in sorted(log) + [(end, "end", "")]:
        if len(on) > 1:
            total += at - last
        last = at
        {"on": on.add, "off": on.discard, "end": lambda _: None}[what](who)
    return total


def trial(kind, fault, args):
    setup = Setup(kind, args)
    try:
        old = setup.wait_active(90)
        if old is None:
            return dict(kind=kind, fault=fault, error="nobody became active", dir=str(setup.dir))
        time.sleep(6)
        agent, proxy = setup.agents[old]
        start = now()
        if fault == "kill":
            agent.kill()
        elif fault == "stop":
            agent.send_signal(signal.SIGSTOP)
        elif fault == "cut":
            proxy.cut()
        elif fault == "server":
            setup.server.kill()
            setup.server.wait()
        else:
            (setup.dir / f"unhealthy-{old}").touch()
        time.sleep(PAUSE)
        healed = now()
        if fault == "stop":
            agent.send_signal(signal.SIGCONT)
        elif fault == "cut":
            proxy.heal()
        elif fault == "server":
            setup.start_server()
        time.sleep(AFTER)
        end, log = now(), setup.log()
        others = [at for at, what, who in log if what == "on" and who != old and at >= start - 0.02]
        # After an outage of the server anybody may be the next, the old one too.
        if fault == "server":
            others = [at for at, what, who in log if what == "on" and at >= start]
        offs = [at for at, what, who in log if what == "off" and who == old and at >= start - 0.02]
        return dict(kind=kind, fault=fault, takeover=others[0] - start if others else None,
                    overlap=overlap(log, end), off=offs[0] - start if offs else None, healed=healed - start)
    finally:
        setup.end()


def span(values):
    known = [value for value in values if value is not None]
    if not known:
        return "never"
    text = f"{statistics.median(known):.1f} / {max(known):.1f}"
    return text if len(known) == len(values) else f"{text} ({len(values) - len(known)} of {len(values)} never)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenure")
    parser.add_argument("--putex")
    parser.add_argument("--nats", default=".tools/bin/nats-server")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--results", help="JSON lines are added to this file, and what is in it is in the table")
    parser.add_argument("--keep", action="store_true", help="keep the directories")
    args = parser.parse_args()
    kinds = [kind for kind in ("putex", "tenure") if getattr(args, kind)]
    plan = [(kind, fault) for _ in range(args.repeats) for fault in args.faults.split(",") for kind in kinds]
    results = []
    if args.results and os.path.exists(args.results):
        results = [json.loads(line) for line in open(args.results)]
    with ThreadPoolExecutor(args.at_once) as pool:
        for result in pool.map(lambda one: trial(*one, args), plan):
            print(json.dumps(result), file=sys.stderr, flush=True)
            results.append(result)
            if args.results:
                with open(args.results, "a") as file:
                    print(json.dumps(result), file=file)
    print("| fault | agent | another active after, s: median / longest | two active, s: median / longest | old one inactive after, s: median / longest |")
    print("| --- | --- | --- | --- | --- |")
    for fault, words in FAULTS.items():
        for kind in ("putex", "tenure"):
            of = [r for r in results if r["fault"] == fault and r["kind"] == kind and "error" not in r]
            if of:
                columns = [span([r[name] for r in of]) for name in ("takeover", "overlap", "off")]
                print(f"| {words} | {kind} ({len(of)}×) | " + " | ".join(columns) + " |")
    failed = [r for r in results if "error" in r]
    if failed:
        sys.exit(f"{len(failed)} trials had no result: {failed}")


if __name__ == "__main__":
    main()
