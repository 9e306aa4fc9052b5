#!/bin/bash
set -e
cp n w
