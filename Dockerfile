# The embedded FHIR server, the runner and a Dask worker in one image. It contains the built hospital, so that it starts
# at once. It runs as any user, with a read-only root, and writes only to /data, /work and /tmp.
#   docker build -t medagent .
# The digest is that of the index python:3.11-slim (amd64, arm64 and others) in August 2026; to get a newer one:
#   docker buildx imagetools inspect python:3.11-slim
ARG PYTHON=python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
FROM ${PYTHON} AS medagent

ENV MEDAGENT_HOME=/var/lib/medagent \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PIP_CONSTRAINT=/src/constraints/constraints.txt

WORKDIR /src
# Dependencies before sources: a change of the sources does not install them again.
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY licenses ./licenses
COPY tools/index_readme.py ./tools/index_readme.py
COPY constraints ./constraints
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; e = p['optional-dependencies']; \
print(*p['dependencies'], *e['cluster'], *e['code'], sep='\n')" > /tmp/needed && pip install --requirement /tmp/needed

COPY medagent ./medagent
COPY refsol ./refsol
COPY fhir_server ./fhir_server
COPY docs ./docs
COPY skills ./skills
RUN pip install --no-deps ".[cluster,code]" && rm -rf /src/medagent /src/refsol /src/fhir_server /src/docs /src/skills

# Group 0 may write what user 1000 may, since every OpenShift user is in it.
RUN useradd --uid 1000 --gid 0 --no-create-home --home-dir /tmp medagent \
    && medagent ehr build \
    && mkdir --parents /work/results /data "$MEDAGENT_HOME/data" "$MEDAGENT_HOME/config" \
    && chown --recursive 1000:0 "$MEDAGENT_HOME" /work /data \
    && chmod --recursive g=u "$MEDAGENT_HOME" /work /data

ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="medagent" \
      org.opencontainers.image.description="Runs medical agents and models on medical benchmarks, and serves FHIR R4" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim"

USER 1000:0
WORKDIR /work
VOLUME /data
EXPOSE 8080
# Only a server can be unhealthy: for any other command, process 1 is not `medagent serve`.
HEALTHCHECK --interval=10s --timeout=10s --start-period=20s CMD ["python", "-c", \
    "import urllib.request as u; 'serve' in open('/proc/1/cmdline').read().split('\\0') and u.urlopen('http://127.0.0.1:8080/fhir/metadata')"]
ENTRYPOINT ["medagent"]
CMD ["--help"]

# The assessing A2A agent for AgentBeats (which passes --host, --port and --card-url): docker build --target green .
FROM medagent AS green
USER 0
RUN python -c "import tomllib; p = tomllib.load(open('/src/pyproject.toml', 'rb'))['project']; \
print(*p['optional-dependencies']['a2a'], sep='\n')" > /tmp/needed && pip install --requirement /tmp/needed
USER 1000:0
EXPOSE 9009
ENTRYPOINT ["medagent", "a2a", "green", "--insecure"]
CMD ["--host", "0.0.0.0", "--port", "9009"]

# The default target of `docker build .`.
FROM medagent
