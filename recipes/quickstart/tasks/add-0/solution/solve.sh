#!/bin/bash
set -e
echo 517 >> q
