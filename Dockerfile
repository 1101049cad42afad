# The embedded FHIR server and the runner in one image. The hospital is built into it, so that it starts at once.
FROM python:3.11-slim

ENV MEDAGENT_HOME=/var/lib/medagent \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY constraints ./constraints
COPY medagent ./medagent
COPY refsol ./refsol
COPY fhir_server ./fhir_server
RUN PIP_CONSTRAINT=constraints/constraints.txt pip install . \
    && useradd --create-home --uid 1000 medagent \
    && mkdir --parents "$MEDAGENT_HOME" /work/results \
    && chown --recursive medagent "$MEDAGENT_HOME" /work

USER medagent
WORKDIR /work
RUN medagent ehr build

EXPOSE 8080
ENTRYPOINT ["medagent"]
CMD ["--help"]
