# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""T20: every form in which a secret can stand, each with a canary that nothing was told of before."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor

KEY = b"a key of a reproduction in tests"
CANARY = "cNry7-Vq2LmT9xWz4"
# With all the characters that have a meaning in some syntax.
THORNY = "p@s/s\"w\\o&r<d>%7Q'z"


def redacted(text: str) -> str:
    return Redactor(KEY).redact_text(text)


FORMS = {
    "environment": "HF_TOKEN={}",
    "environment, exported": "export VLLM_API_KEY={}",
    "environment, quoted": 'export VLLM_API_KEY="{}"',
    "environment, docker run": "docker run -e HUGGING_FACE_HUB_TOKEN={} -p 8000:8000 vllm/vllm-openai",
    "environment, separated by NUL": "PATH=/bin\0HF_TOKEN={}\0HOME=/root\0",
    "environment, shell trace": "+ export HF_TOKEN={}",
    "environment, suffixed": "HF_TOKEN_PROD={}",
    "environment, PGPASSWORD": "PGPASSWORD={} psql",
    "flag": "vllm serve m --api-key {} --port 8000",
    "flag with equals sign": "vllm serve m --api-key={} --port 8000",
    "flag, quoted": "vllm serve m --api-key '{}' --port 8000",
    "flag, in the next line": "docker run vllm \\\n  --api-key \\\n  {} \\\n  --port 1",
    "flag, second value": "vllm serve m --api-key other-K3y-0001 {} --port 8000",
    "flag, Ray": "ray start --head --redis-password={}",
    "argv as a JSON list": '["serve", "m", "--api-key", "{}", "--port", "8000"]',
    "argv as a JSON list, compact": '["serve","--api-key","{}"]',
    "argv as a JSON list over lines": '"Cmd": [\n    "serve",\n    "--api-key",\n    "{}",\n    "--port"\n]',
    "argv as a Python list": "['serve', '--hf-token', '{}']",
    "argv as a YAML list": "command:\n  - --api-key\n  - {}\n  - --port\n",
    "argv word with equals sign in a list": '["--api-key={}", "--port"]',
    "JSON": '{{"api_key": "{}", "port": 8000}}',
    "JSON, compact": '{{"port":8000,"hfToken":"{}"}}',
    "JSON within JSON": '{{"config": "{{\\"api_key\\": \\"{}\\"}}"}}',
    "JSON within JSON within JSON": '"{{\\\\\\"secret\\\\\\": \\\\\\"{}\\\\\\"}}"',
    "JSON, environment list": '"Env": ["PATH=/bin", "HF_TOKEN={}", "A=b"]',
    "JSON, name and value": '{{"name": "HF_TOKEN", "value": "{}"}}',
    "YAML": "hf_token: {}",
    "YAML, quoted": 'hf_token: "{}"',
    "YAML, indented": "auth:\n    password: {}   # ask the admin\n",
    "YAML, name and value": "env:\n- name: HF_TOKEN\n  value: {}\n",
    "YAML, block": "password: |\n  {}\nport: 8000\n",
    "TOML": 'api_key = "{}"',
    "INI": "aws_secret_access_key = {}",
    "Python repr, list": "non-default args: {{'model_tag': 'm', 'api_key': ['{}'], 'port': 1}}",
    "Python repr, Namespace": "args: Namespace(host=None, api_key='{}', port=1)",
    "Python repr, Namespace with list": "args: Namespace(api_key=['other-K3y-0001', '{}'], port=1)",
    "Python repr, bytes": "{{'api_key': b'{}'}}",
    "Python repr, SecretStr": "Settings(token=SecretStr('{}'))",
    "Python, environ": "os.environ['HF_TOKEN'] = '{}'",
    "Python, annotated": 'token: Optional[str] = "{}"',
    "Go map": "map[host:a api_key:{} port:1]",
    "Bearer": "Authorization: Bearer {}",
    "Bearer without its header": "sent Bearer {} to the server",
    "Bearer in curl": "curl -H 'Authorization: Bearer {}' http://localhost:8000/v1/models",
    "Bearer in a JSON header": '{{"headers": {{"authorization": "Bearer {}"}}}}',
    "Bearer in a raw header list": "[(b'host', b'a'), (b'authorization', b'Bearer {}')]",
    "password in curl": "curl -f -u admin:{} http://localhost:8000/health || exit 1",
    "password in curl, at once": "curl -u admin:{} http://localhost:8000/health",
    "password in curl, long": "curl -sS --user 'admin:{}' http://localhost:8000/health",
    "password in curl, argv": '["CMD", "curl", "-u", "admin:{}", "http://localhost:8000"]',
    "header X-Api-Key": "X-Api-Key: {}",
    "header Private-Token": "> PRIVATE-TOKEN: {}",
    "header api-key in a list": "[('api-key', '{}')]",
    "header Proxy-Authorization": "Proxy-Authorization: Token {}",
    "header Digest": 'Authorization: Digest username="me", response="{}"',
    "cookie": "Cookie: session={}; theme=dark",
    "set-cookie": "Set-Cookie: sid={}; Path=/; HttpOnly",
    "URL, user and password": "pulling https://me:{}@registry.example.com/v2/",
    "URL, password only": "redis://:{}@10.0.0.7:6379/0",
    "URL, token as user": "git clone https://{}@github.com/a/b",
    "URL, proxy": "https_proxy=http://me:{}@proxy.example.com:3128",
    "URL, query token": "GET /v1/models?a=1&access_token={}&b=2 HTTP/1.1",
    "URL, signature": "https://b.s3.amazonaws.com/w.safetensors?X-Amz-Date=1&X-Amz-Signature={}",
    "URL, SAS": "https://a.blob.core.windows.net/c?sv=2024&sig={}",
    "URL, session token": "https://b/o?X-Amz-Security-Token={}&x=1",
    "netrc": "machine huggingface.co login me password {}",
    "netrc, over lines": "machine api.wandb.ai\n  login user\n  password {}\n",
    "docker config, identity token": '{{"auths": {{"x": {{"identitytoken": "{}"}}}}}}',
    "S3": "s3cmd --access_key=AKID --secret_key={} ls",
    "W&B": "WANDB_API_KEY={}",
    "NGC": "NGC_CLI_API_KEY: {}",
    "Redis configuration": "requirepass={}",
    "Azure connection": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=x",
}


@pytest.mark.parametrize("form", FORMS)
def test_t20_a_canary_is_gone_in_every_form(form: str) -> None:
    text = FORMS[form].format(CANARY)
    answer = redacted(text)
    assert CANARY not in answer
    assert CANARY[-6:] not in answer
    assert "<redacted " in answer


@pytest.mark.parametrize("form", FORMS)
def test_t20_within_a_kept_log(form: str) -> None:
    stamp = "2026-08-09T10:00:00.123456789Z stderr "
    text = "".join(stamp + line + "\n" for line in FORMS[form].format(CANARY).split("\n"))
    assert CANARY[-6:] not in redacted("x\n" + text + stamp + "INFO all is well\n")


@pytest.mark.parametrize("form", [form for form in FORMS if "second value" not in form])
def test_a_short_value_is_removed_where_a_key_names_it(form: str) -> None:
    if form.startswith(("Bearer without", "URL, token as user")):
        # Nothing but its length and look says that it is a secret.
        assert "q7Zx" in redacted(FORMS[form].format("q7Zx"))
    else:
        assert "q7Zx" not in redacted(FORMS[form].format("q7Zx"))


@pytest.mark.parametrize("form", FORMS)
def test_what_stands_round_a_secret_stays(form: str) -> None:
    before, after = FORMS[form].split("{}")[0], FORMS[form].split("{}")[-1]
    answer = redacted(FORMS[form].format(CANARY))
    known = (
        "set-cookie",
        "cookie",
        "header Digest",
        "flag, second value",
        "Python repr, Namespace with list",
        "S3",
    )
    if form not in known:
        assert answer.startswith(before.format())
        assert answer.endswith(after.format())


TOKENS = {
    "Hugging Face": "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "OpenAI": "sk-" + "proj-T3xT_aBcDeFgHiJkLmNoPqRsTuVw",
    "GitHub": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "GitHub, fine-grained": "github_pat_" + "11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789",
    "GitLab": "glpat-" + "aBcDeFgHiJ0123456789",
    "AWS key id": "AKIA" + "IOSFODNN7EXAMPLE",
    "AWS temporary key id": "ASIA" + "IOSFODNN7EXAMPLE",
    "NVIDIA": "nvapi-" + "Ab1_cD2-eF3gH4iJ5kL6mN7oP8qR9sT0",
    "Slack": "xoxb-" + "123456789012-1234567890123-AbCdEfGhIjKl",
    "JWT": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "Google": "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "npm": "npm_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789",
    "Vault": "hvs." + "CAESIJ1aBcDeFgHiJkLmNoPqRsTu",
    "Weights and Biases": "wandb_v1_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ0123",
    "Docker": "dckr_pat_" + "aBcDeFgHiJkLmNoPqRsTuVwX",
    "Groq": "gsk_" + "aBcDeFgHiJkLmNoPqRsTuVwX",
}


@pytest.mark.parametrize("maker", TOKENS)
@pytest.mark.parametrize("around", ["{}", "say {} here", '"{}"', "({}),", "a={};", "/{}/", "x\n{}\ny"])
def test_t20_a_token_is_known_by_its_form(maker: str, around: str) -> None:
    answer = redacted(around.format(TOKENS[maker]))
    assert TOKENS[maker][-12:] not in answer
    before, after = around.split("{}")
    assert answer.startswith(before)
    assert answer.endswith(after)


def test_t20_an_aws_secret_behind_its_key_id() -> None:
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    for between in (":", " ", ", ", "\n", '","'):
        assert secret not in redacted(TOKENS["AWS key id"] + between + secret)


@pytest.mark.parametrize("value", [CANARY, THORNY, "0123456789abcdef0123456789abcdef", "passé-wörd-Zürich"])
def test_t20_copies_of_a_known_value(value: str) -> None:
    redactor = Redactor(KEY)
    redactor.learn_environment(["VLLM_API_KEY=" + value])
    stand_in = redactor.redact_text(f"VLLM_API_KEY={value}").partition("=")[2]
    raw = value.encode()
    copies = {
        "raw": value,
        "JSON": json.dumps(value)[1:-1],
        "JSON, not ASCII": json.dumps(value, ensure_ascii=False)[1:-1],
        "JSON within JSON": json.dumps(json.dumps(value)[1:-1])[1:-1],
        "JSON of Go": json.dumps(value)[1:-1]
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026"),
        "URL": quote(value, safe=""),
        "URL, small letters": re.sub("%..", lambda code: code.group().lower(), quote(value, safe="")),
        "URL, form": quote_plus(value),
    }
    for name, copy in copies.items():
        assert redactor.redact_text(f"seen {copy} there") == f"seen {stand_in} there", name
    for before in (b"", b"u", b"us", b"user:"):
        for after in (b"", b":", b"::", b"\n"):
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                text = "data: " + encode(before + raw + after).decode() + " end"
                answer = redactor.redact_text(text)
                assert stand_in in answer
                assert base64.b64encode(raw)[4:12].decode() not in answer


def test_t20_a_basic_header_hides_and_teaches_its_password() -> None:
    encoded = base64.b64encode(b"me:" + CANARY.encode()).decode()
    redactor = Redactor(KEY)
    answer = redactor.redact_text(f"Authorization: Basic {encoded}\nsaw {CANARY} again")
    assert encoded not in answer
    assert CANARY not in answer


def test_t20_docker_config_auth_hides_and_teaches_its_password() -> None:
    encoded = base64.b64encode(b"me:" + CANARY.encode()).decode()
    document = {"auths": {"registry.example.com": {"auth": encoded}}}
    redactor = Redactor(KEY)
    assert encoded not in redactor.redact_text(json.dumps(document))
    assert CANARY not in redactor.redact_text(f"saw {CANARY} again")


PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    "MIIEpAIBAAKCAQEAcanaryAbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdef\n"
    "canary2AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefghijklmnopqrstu\n"
    "canary3==\n"
    "-----END RSA PRIVATE KEY-----\n"
)
STAMP = "2026-08-09T10:00:00.123456789Z stderr "


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        PEM.replace("\n", "\r\n"),
        json.dumps({"tls": PEM}),
        json.dumps(json.dumps({"tls": PEM})),
        PEM.replace("RSA PRIVATE", "OPENSSH PRIVATE"),
        PEM.replace("RSA ", "").replace("-----END", "-----NO END"),
        "".join(STAMP + line + "\n" for line in PEM.splitlines()),
        "key: |\n" + "".join("    " + line + "\n" for line in PEM.splitlines()),
        "client-key-data: " + base64.b64encode(PEM.encode()).decode(),
        "other: " + base64.b64encode(PEM.encode()).decode(),
        "other:\n" + base64.encodebytes(PEM.encode()).decode(),
    ],
)
def test_t20_a_private_key_is_removed(text: str) -> None:
    answer = redacted("before\n" + text + "\nafter, it goes on")
    assert "canary" not in answer
    assert base64.b64encode(b"-canary2")[2:8].decode() not in answer
    assert answer.startswith("before\n")
    assert answer.endswith("after, it goes on")


def test_a_certificate_and_a_public_key_stay() -> None:
    text = PEM.replace("RSA PRIVATE KEY", "CERTIFICATE")
    assert redacted(text) == text


@pytest.mark.parametrize("cut", range(1, len(CANARY)))
@pytest.mark.parametrize("wrap", ["\n", "\r\n", "\\\n", "\n    ", "\n" + STAMP, "\n" + STAMP + "    ", "\\n"])
def test_t20_a_known_value_split_over_a_line_wrap(cut: int, wrap: str) -> None:
    redactor = Redactor(KEY)
    redactor.learn_environment({"HF_TOKEN": CANARY})
    stand_in = redactor.redact_text(CANARY)
    answer = redactor.redact_text(f"line one {CANARY[:cut]}{wrap}{CANARY[cut:]} goes on")
    assert answer == f"line one {stand_in} goes on"


@pytest.mark.parametrize("cut", range(11, len(TOKENS["Hugging Face"])))
def test_t20_a_token_of_known_length_split_over_a_line_wrap(cut: int) -> None:
    token = TOKENS["Hugging Face"]
    redactor = Redactor(KEY)
    # Without eight characters behind its beginning a piece cannot be told from a word.
    assert (
        redactor.redact_text(f"one {token[:cut]}\n{token[cut:]} two")
        == f"one {redactor.redact_text(token)} two"
    )


@pytest.mark.parametrize("width", [20, 40, 76, 80])
def test_t20_a_long_known_value_wrapped_many_times(width: int) -> None:
    value = "".join(chr(33 + (index * 37 + index // 7) % 90) for index in range(300)).replace("\\", "x")
    redactor = Redactor(KEY)
    redactor.learn_environment({"SECRET": value})
    wrapped = "\n".join(value[start : start + width] for start in range(0, 300, width))
    assert "<redacted SECRET " in redactor.redact_text(wrapped)
    assert value[-8:] not in redactor.redact_text(wrapped)


def test_t20_a_quoted_value_split_over_a_line_wrap() -> None:
    answer = redacted(f"args: {{'api_key': '{CANARY[:8]}\n{CANARY[8:]}', 'port': 1}}")
    assert CANARY[:8] not in answer
    assert CANARY[8:] not in answer
    assert answer.endswith("', 'port': 1}")
