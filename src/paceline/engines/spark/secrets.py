"""The keys of one run: Spark's secret, and the keys with which the driver sends step records to the workers."""

import secrets

from paceline.engines.base import Secrets
from paceline.paramserver.transports.curve_auth import new_keys

SPARK_SECRET = "spark-authenticate"
_SECRET_BYTES = 32


def new_secrets() -> Secrets:
    shared = {SPARK_SECRET: secrets.token_hex(_SECRET_BYTES)}
    return {role: {**keys, **shared} for role, keys in new_keys().items()}
