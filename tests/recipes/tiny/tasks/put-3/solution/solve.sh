#!/bin/bash
echo 3 > out
