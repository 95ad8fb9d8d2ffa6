#!/bin/sh
echo "coverage reports are not set up in this workspace" >&2
exit 1
