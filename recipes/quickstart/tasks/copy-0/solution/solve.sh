#!/bin/bash
set -e
cp g w
