#!/bin/bash
set -e
cp y o
