"""Prometheus metrics: counts and times, never texts."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TOKENS = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "tertium_requests", "Requests answered.", ("route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "tertium_request_seconds",
            "Time from the arrival of a request to its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.queued = Gauge(
            "tertium_queue_requests", "Requests accepted and not yet answered.", registry=registry
        )
        self.queued_bytes = Gauge(
            "tertium_queue_bytes", "Bytes of their bodies.", registry=registry
        )
        self.refused = Counter(
            "tertium_refused", "Requests refused, by reason.", ("code",), registry=registry
        )
        self.dropped = Counter(
            "tertium_dropped", "Requests whose client disconnected.", registry=registry
        )
        by_model: Any = {"labelnames": ("model",), "registry": registry}
        self.texts = Counter("tertium_texts", "Texts or triples run.", **by_model)
        self.tokens = Counter("tertium_tokens", "Tokens run.", **by_model)
        self.batch_tokens = Histogram(
            "tertium_batch_tokens", "Tokens per batch.", buckets=_TOKENS, **by_model
        )
        self.batch_seconds = Histogram(
            "tertium_batch_seconds", "Time per batch.", buckets=_SECONDS, **by_model
        )
        self.loads = Counter("tertium_model_loads", "Times a worker loaded the model.", **by_model)
        self.loaded = Gauge(
            "tertium_model_workers", "Workers that have the model loaded.", **by_model
        )
        self.restarts = Counter("tertium_worker_restarts", "Workers that died.", registry=registry)
        self.ready = Gauge("tertium_workers_ready", "Workers that can answer.", registry=registry)

    def batch(self, *, model: str, texts: int, tokens: int, seconds: float) -> None:
        """Count one batch of a worker."""
        self.texts.labels(model).inc(texts)
        self.tokens.labels(model).inc(tokens)
        self.batch_tokens.labels(model).observe(tokens)
        self.batch_seconds.labels(model).observe(seconds)

    def request(self, *, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus format."""
        return generate_latest(self.registry)
