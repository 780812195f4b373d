"""Writes spellings.json: what Python, in which Ironic is written, makes of some passwords."""
import base64
import html
import json
import shlex
import urllib.parse
from xml.sax import saxutils

PASSWORDS = ['hunter22', '''a'b"c\\d%e&f<g>é😀 \t\n\x07/+?=~!$`*;''', "it's 100% safe", 'a"b"c', "ü/ö+ä ~", "x\\y\\\\z", "<&'>", "line1\r\nline2", "-Pw -x=1"]


def spellings(pw):
    return {
        "str": pw, "repr": repr(pw), "ascii": ascii(pw), "bytes": repr(pw.encode()), "dict": str({"ipmi": pw}),
        "repr of repr": repr(repr(pw)), "command": repr(["ipmitool", "-P", pw]),
        "json": json.dumps(pw), "json, not ascii": json.dumps(pw, ensure_ascii=False),
        "json in json": json.dumps(json.dumps({"x": pw})), "repr of json": repr(json.dumps(pw)),
        "quote": urllib.parse.quote(pw), "quote all": urllib.parse.quote(pw, safe=""), "quote_plus": urllib.parse.quote_plus(pw),
        "lower": "".join(c if c.isalnum() and c.isascii() else "".join(f"%{b:02x}" for b in c.encode()) for c in pw),
        "quote of json": urllib.parse.quote(json.dumps(pw)), "shlex": shlex.quote(pw),
        "html": html.escape(pw), "xml": saxutils.escape(pw), "attribute": saxutils.quoteattr(pw),
        "base64": base64.b64encode(pw.encode()).decode(), "basic": base64.b64encode(b"admin:" + pw.encode()).decode(),
        "basic, root": base64.b64encode(b"root:" + pw.encode()).decode(),
        "base64 in the middle": base64.b64encode(b"adm:" + pw.encode() + b"@bmc").decode(),
        "urlsafe": base64.urlsafe_b64encode(b"adm:" + pw.encode()).decode(),
    }


with open("spellings.json", "w", encoding="utf-8") as f:
    json.dump({pw: spellings(pw) for pw in PASSWORDS}, f, ensure_ascii=True, indent=1)
    f.write("\n")
