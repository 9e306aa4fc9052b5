#!/bin/bash
set -e
cp r o
