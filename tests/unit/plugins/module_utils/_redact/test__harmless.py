# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""T25: what looks like a secret and is none stays, byte for byte; T22: names of files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._names import secret_kind
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor

KEY = b"a key of a reproduction in tests"
SHARED = Path(__file__).parents[5] / ".." / "shared"

HARMLESS = [
    "max_tokens=4096, min_tokens=0, skip_special_tokens=True, spaces_between_special_tokens=True",
    '{"max_tokens": 16, "max_completion_tokens": 32}',
    "--max-num-batched-tokens 8192 --max-num-batched-tokens=16384",
    "--tokenizer moonshotai/Kimi-K3 --tokenizer-mode auto --tokenizer-revision 8f2a9c",
    "tokenizer='moonshotai/Kimi-K3', skip_tokenizer_init=False, tokenizer_mode=auto",
    "special_tokens_map.json tokenizer_config.json tokenizer.model added_tokens.json",
    '{"bos_token": "<|begin_of_text|>", "eos_token": "<|end|>", "pad_token": "[PAD]", "unk_token": "<unk>"}',
    '{"bos_token_id": 163584, "eos_token_id": [163585, 163586], "pad_token_id": 163839}',
    '"usage": {"prompt_tokens": 12, "completion_tokens": 16, "total_tokens": 28}',
    "prompt_token_ids: [1, 2, 3], prompt_token_ids: None, output_token_ids=[5]",
    '{"token": "Hello", "logprob": -0.31, "bytes": [72, 101], "top_logprobs": []}',
    '{"token":" completely","logprob":-0.1}',
    "Avg prompt throughput: 3397.5 tokens/s, Avg generation throughput: 34.7 tokens/s",
    "GPU KV cache size: 1,022,304 tokens",
    "num_scheduled_tokens={'chatcmpl-8f2a': 1}, total_num_scheduled_tokens=1",
    "vllm:time_to_first_token_seconds_bucket{le='0.5'} 3.0",
    "vllm:time_per_output_token_seconds_sum 12.5",
    "use_auth_token: true, trust_remote_code: true, api_key: null, hf_token=None, password: ''",
    "HF_TOKEN_PATH=/root/.cache/huggingface/token",
    "AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/secrets/token",
    "ssl_keyfile=/etc/ssl/private/key.pem ssl_certfile=/etc/ssl/cert.pem",
    "--ssl-keyfile /etc/ssl/key.pem",
    "image sha256:3f2a9c0b1d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd",
    "vllm/vllm-openai@sha256:3f2a9c0b1d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd",
    "revision 8f2a9c0b1d4e5f60718293a4b5c6d7e8f9012345 commit 7c5b0f3",
    "GPU-8c4e3a1b-6f2d-4e9a-b1c7-0d5f6a7b8c9d MIG-4a1b2c3d-1111-2222-3333-444455556666",
    "Serial Number : 1654823000123",
    "container 9a8b7c6d5e4f30211203f4e5d6c7b8a99a8b7c6d5e4f30211203f4e5d6c7b8a9",
    "cmpl-8f2a9c0b1d4e5f60718293a4b5c6d7e8 chatcmpl-8f2a9c0b1d4e5f60718293a4b5c6d7e8",
    "usage: vllm serve [--api-key API_KEY [API_KEY ...]] [--hf-token [HF_TOKEN]]",
    "  --api-key API_KEY [API_KEY ...]\n                        If provided, the server will require a key\n",
    "api_key=SecretStr('**********') token=*** password=xxxxxxxx",
    "OPENAI_API_KEY=EMPTY",
    "export HF_TOKEN=$HF_TOKEN; docker run -e HF_TOKEN=${HF_TOKEN} -e HF_TOKEN image",
    "    api_key = os.environ['VLLM_API_KEY']",
    "    return hf_hub_download(repo_id, token=self.token, api_key=args.api_key)",
    "KeyError: 'block_size'  keyword=value  monkey: banana  key_cache=None",
    "KeyError: 'token'",
    "Unexpected token: foo in JSON at position 3",
    "kv_cache_key: 12, cache_key=abc123def, prompt_cache_key: 'x1y2z3'",
    "compilation_config={'pass_config': {'fuse_norm': True}, 'inductor_pass': None} FORWARD_PASS",
    "PASS: test passed, compass=3, passed=5, bypass: yes1",
    "authentication is required, author: Jane Doe1, authored-by=x1",
    "PWD=/root/abc123 OLDPWD=/tmp/xyz9",
    "secretName: regcred-01\nsecretKeyRef: hf-ref-1",
    "Basic usage: see docs. Bearer authentication is used. basic auth",
    "git clone ssh://git@github.com/a/b http://localhost:8000/v1 tcp://10.0.0.1:2379",
    "see https://docs.vllm.ai/en/latest/serving/env_vars.html#x?a=b&page=2",
    "mailto:jane@example.com user@host:/path",
    "sk-learn scikit disk-usage task-1234567890abcdef hf_transformers_backend npm_config_registry",
    "NCCL_IB_HCA=mlx5_0:1,mlx5_1:1 NCCL_DEBUG=INFO UCX_NET_DEVICES=mlx5_0:1",
    "CUDA_VISIBLE_DEVICES=0,1,2,3 NVIDIA_VISIBLE_DEVICES=GPU-8c4e3a1b-6f2d-4e9a-b1c7-0d5f6a7b8c9d",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQ==\n-----END CERTIFICATE-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1aBcDeFgHiJkLmNoPqRsTuVwXyZ host",
    "Xid (PCI:0009:01:00): 13, pid=270, name=python, signature: none",
    "Signature Algorithm: sha256WithRSAEncryption",
    "model='moonshotai/Kimi-K3', served_model_name=kimi-k3, seed=0",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_t25_what_is_no_secret_stays(text: str) -> None:
    assert Redactor(KEY).redact_text(text) == text


@pytest.mark.parametrize("text", HARMLESS)
def test_t25_beside_a_secret_it_stays_too(text: str) -> None:
    redactor = Redactor(KEY)
    redactor.learn_environment(["VLLM_API_KEY=cNry7-Vq2LmT9xWz4", "MODEL=kimi-k3", "PORT=8000"])
    assert redactor.redact_text(text) == text


@pytest.mark.parametrize(
    "value",
    [
        "true",
        "password",
        "8000",
        "123456789",
        "/root/.cache/token",
        "2026-08-09",
        "10.0.0.1:8000",
        "aaaaaaaaaaaa",
    ],
)
def test_common_words_paths_and_numbers_are_not_looked_for_elsewhere(value: str) -> None:
    redactor = Redactor(KEY)
    redactor.learn_environment({"API_KEY": value})
    redactor.learn_argv(["serve", "--api-key", value])
    assert redactor.redact_text(f"saw {value} there") == f"saw {value} there"


SURE = """
HF_TOKEN HUGGING_FACE_HUB_TOKEN api_key --api-key apiKey APIKey X-Api-Key Authorization AWS_ACCESS_KEY_ID
AWS_SECRET_ACCESS_KEY NGC_API_KEY redis_password requirepass HF_TOKEN_PROD identitytoken WANDB_API_KEY
access_token OPENAI_KEY client-key-data DB_PASS X-Auth-Token Ocp-Apim-Subscription-Key MINIO_ROOT_PASSWORD
RAY_REDIS_PASSWORD HF_TOKENS api_keys password2 AccountKey PGPASSWORD hf_token_2 S3_SECRET secret_key
""".split()
NONE = """
HF_TOKEN_PATH max_tokens tokenizer --max-num-batched-tokens special_tokens_map token_ids prompt_token_ids
bos_token total_tokens tokenizer-mode eos_token_id kv_cache_key KeyError key PWD auths TOKEN_ID CACHE_KEY
pass_config inductor_pass secretName secret_key_ref authentication author num_tokens token_type_ids
time_per_output_token passwordHash ssl_keyfile TOKEN5S first_token token_count PUBLIC_KEY token_limit
""".split()


@pytest.mark.parametrize("name", SURE)
def test_names_of_secrets(name: str) -> None:
    assert secret_kind(name) == "sure"


@pytest.mark.parametrize("name", NONE)
def test_names_of_none(name: str) -> None:
    assert secret_kind(name) is None


def test_digits_in_a_name_do_not_decide() -> None:
    for name in SURE + NONE:
        assert secret_kind(name.translate(str.maketrans("", "", "0123456789"))) == secret_kind(name)


def test_t22_names_of_files_hold_no_secret() -> None:
    redactor = Redactor(KEY)
    redactor.learn_environment({"HF_TOKEN": "cNry7-Vq2LmT9xWz4"})
    name = redactor.redact_name("/home/me/cNry7-Vq2LmT9xWz4/hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567.txt")
    assert name.startswith("/home/me/redacted-HF_TOKEN-")
    assert not set(name) & set("<> ")
    assert "cNry7" not in name
    assert "hf_AbCd" not in name
    assert redactor.redact_name(name) == name
    assert redactor.redact_name("containers/a1/log.txt.gz") == "containers/a1/log.txt.gz"


def test_t25_worked_cases_and_captures_are_untouched() -> None:
    if not SHARED.is_dir():
        pytest.skip("the shared folder beside the checkout is not there")
    files = [
        path
        for path in SHARED.glob("ca*/**/*")
        if path.is_file() and path.suffix in (".txt", ".log", ".xml", ".json")
    ]
    assert len(files) > 40
    for path in files:
        content = path.read_bytes()
        redactor = Redactor(KEY)
        assert redactor.redact_bytes(content) == content, path
        if path.suffix == ".json":
            document = json.loads(content)
            assert redactor.redact_value(document) == document, path


def test_compressed_bytes_survive() -> None:
    content = gzip.compress(b"max_tokens\n" * 10_000, mtime=0)
    assert Redactor(KEY).redact_bytes(content) == content
