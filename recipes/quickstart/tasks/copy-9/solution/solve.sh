#!/bin/bash
set -e
cp y a
