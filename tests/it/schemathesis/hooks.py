"""Lets requests meet: few keys, owners and pools, and lives that outlast the next request of a chain."""

import zlib

import schemathesis

KEYS = [f"jobs/{n}" for n in range(4)] + ["a", "b/ü"]


def digest(text):
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


@schemathesis.hook
def before_call(ctx, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    key, ttl = body.get("key"), body.get("ttl_ms")
    # Half of the keys stay what they are.
    if isinstance(key, str) and key and digest(key) % 2 and "lease_id" not in body and len(key) < 400:
        body["key"] = KEYS[digest(key) // 2 % len(KEYS)]
    if isinstance(ttl, int) and not isinstance(ttl, bool) and 0 <= ttl < 60_000:
        body["ttl_ms"] = 60_000 + ttl
