#!/bin/bash
set -e
cp r x
