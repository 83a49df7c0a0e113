"""Lets requests meet: few keys, owners and pools, and lives that outlast the next request of a chain."""

import zlib

import schemathesis

KEYS = [f"jobs/{n}" for n in range(4)] + ["a", "b/ü"]


# The patterns of the document cannot name characters beyond U+FFFF.
UNSEEN = [(0x110BD, 0x110CD), (0x13430, 0x13442), (0x16FE4, 0x16FE4), (0x1BCA0, 0x1BCA3), (0x1D159, 0x1D17A), (0xE0000, 0xE0FFF)]


def is_unseen(character):
    code = ord(character)
    return code & 0xFFFE == 0xFFFE or any(first <= code <= last for first, last in UNSEEN)


def digest(text):
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


@schemathesis.hook
def before_call(ctx, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    parts = body.get("keys") if isinstance(body.get("keys"), list) else []
    for part in [body, *(part for part in parts if isinstance(part, dict))]:
        for field in ("key", "owner", "to", "version", "address", "certificate"):
            if isinstance(part.get(field), str):
                part[field] = "".join("x" if is_unseen(it) else it for it in part[field])
    key, ttl = body.get("key"), body.get("ttl_ms")
    # Half of the keys stay what they are.
    if isinstance(key, str) and key and digest(key) % 2 and "lease_id" not in body and len(key) < 400:
        body["key"] = KEYS[digest(key) // 2 % len(KEYS)]
    if isinstance(ttl, int) and not isinstance(ttl, bool) and 0 <= ttl < 60_000:
        body["ttl_ms"] = 60_000 + ttl
