"""A private authority and a certificate for 127.0.0.1 that it signed, made with openssl."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Certificates(NamedTuple):
    """Files in PEM: whom to trust, and what a broker shows."""

    authority: Path
    certificate: Path
    key: Path

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a broker that shows the certificate."""
        return {"tls_certificate": str(self.certificate), "tls_key": str(self.key)}

    @property
    def trusting(self) -> ssl.SSLContext:
        """What a client needs that trusts the authority."""
        return ssl.create_default_context(cafile=self.authority)


def make_certificates(directory: Path) -> Certificates:
    directory.mkdir(parents=True, exist_ok=True)
    made = Certificates(*(directory / name for name in ("ca.pem", "certificate.pem", "key.pem")))
    signer, request, names = (directory / name for name in ("ca-key.pem", "request.pem", "names.cnf"))
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nauthorityKeyIdentifier=keyid\n")
    authority = ["-subj", "/CN=private", "-addext", "keyUsage=critical,keyCertSign"]  # Python 3.13 asks for its usage
    _openssl("req", "-x509", *_KEY, "-days", "2", *authority, "-keyout", signer, "-out", made.authority)
    _openssl("req", "-new", *_KEY, "-subj", "/CN=localhost", "-keyout", made.key, "-out", request)
    signed_by = ["-CA", made.authority, "-CAkey", signer, "-CAcreateserial", "-days", "2", "-extfile", names]
    _openssl("x509", "-req", "-in", request, *signed_by, "-out", made.certificate)
    return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
