"""What a run on Spark reports about itself: the libraries that compute, and the garbage collection of the driver."""

from typing import Any

import numpy as np

_NATIVE = "JNIBLAS"


def details_of(spark: Any) -> dict[str, str | float]:
    """Of the driver. `spark` is the SparkContext."""
    return {"numpy_blas": numpy_blas(), "mllib_blas": mllib_blas(spark._jvm), "driver_gc_s": gc_s(spark._jvm)}


def numpy_blas() -> str:
    """The library with which NumPy multiplies matrices."""
    config: Any = np.show_config(mode="dicts")
    blas = (config or {}).get("Build Dependencies", {}).get("blas", {})
    return " ".join(str(blas[name]) for name in ("name", "version") if blas.get(name)) or "unknown"


def mllib_blas(jvm: Any) -> str:
    """The library with which MLlib multiplies matrices; Java code if there is no native one."""
    name = jvm.dev.ludovic.netlib.blas.BLAS.getInstance().getClass().getSimpleName()
    return f"{name} (native)" if name == _NATIVE else f"{name} (Java; install libblas3 for a native one)"


def gc_s(jvm: Any) -> float:
    """Seconds that the driver's JVM has collected garbage."""
    beans = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    return float(sum(max(0, bean.getCollectionTime()) for bean in beans)) / 1e3
