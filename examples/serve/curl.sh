#!/bin/sh
# Ask a running server with curl:  sh examples/serve/curl.sh http://127.0.0.1:8080
set -eu
url=${1:-http://127.0.0.1:8080}

ask() {
    curl --silent --show-error --fail-with-body "$url/v1/$1" \
        --header "Authorization: Bearer ${TERTIUM_KEY:-none}" \
        --header 'Content-Type: application/json' --data "$2"
    echo
}

ask similarity '{"pairs": [["A cat sleeps.", "A kitten is napping."]]}'
ask embeddings '{"input": "A cat sleeps.", "dimensions": 4}'
curl --silent --show-error --fail "$url/readyz"
echo
