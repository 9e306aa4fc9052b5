#!/bin/bash
echo 0 > out
