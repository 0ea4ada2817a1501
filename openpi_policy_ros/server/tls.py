# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's certificate and private key, or a message that names the file at fault."""

from __future__ import annotations

import ssl
from pathlib import Path

from openpi_policy_ros.errors import ConfigurationError


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return what a TLS server needs: TLS 1.2 or newer, no client certificates.

    Args:
        certificate: PEM file with the certificate and the chain above it.
        key: PEM file with the private key; '' = it is in ``certificate``.

    Raises:
        ConfigurationError: a file is missing, unreadable or not what it should be, or the two do
            not belong together.

    """
    certificate_file = Path(certificate).expanduser()
    key_option = 'tls_key' if key else 'tls_certificate'
    key_file = Path(key).expanduser() if key else certificate_file
    problems = [
        *_missing('tls_certificate', certificate_file, 'certificate', b'BEGIN CERTIFICATE'),
        *_missing(key_option, key_file, 'private key', b'PRIVATE KEY-----'),
    ]
    if problems:
        # Twice the same one if both are to be in one file.
        raise ConfigurationError('server', list(dict.fromkeys(problems)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificate_file)
    except (ssl.SSLError, OSError) as error:
        raise _broken('tls_certificate', certificate_file, 'certificate', error) from None
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate_file, key_file, password=_no_password)
    except _EncryptedKey:
        raise ConfigurationError(
            'server',
            [
                f'{key_option}: {key_file}: the private key is encrypted, and nobody is there to '
                'type its password; decrypt it (openssl pkey -in … -out …) and chmod 600 it'
            ],
        ) from None
    except ssl.SSLError as error:
        if error.reason == 'KEY_VALUES_MISMATCH':
            raise ConfigurationError(
                'server',
                [
                    f'{key_option}: {key_file}: is not the key of the certificate in '
                    f"{certificate_file}; the first certificate there must be the server's own"
                ],
            ) from None
        raise _broken(key_option, key_file, 'private key or certificate', error) from None
    return context


def _missing(option: str, file: Path, what: str, mark: bytes) -> list[str]:
    """Return what keeps ``file`` from being a PEM file with ``mark`` in it."""
    try:
        content = file.read_bytes()
    except OSError as error:
        return [f'{option}: {file}: {error.strerror or error}']
    if mark in content:
        return []
    remedy = (
        '; name its file in tls_key' if (option, what) == ('tls_certificate', 'private key') else ''
    )
    return [f'{option}: {file}: holds no {what} in PEM form{remedy}']


class _EncryptedKey(Exception):
    """OpenSSL asked for a password."""


def _no_password() -> str:
    raise _EncryptedKey


def _broken(option: str, file: Path, what: str, error: OSError) -> ConfigurationError:
    reason = getattr(error, 'reason', None) or error.strerror or str(error)
    return ConfigurationError(
        'server', [f'{option}: {file}: OpenSSL cannot read the {what} in it: {reason}']
    )
