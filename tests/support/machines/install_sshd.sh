#!/usr/bin/env bash
# Installs the OpenSSH client and server on Debian and Ubuntu, if they are missing. No service is started.
set -euo pipefail
command -v ssh >/dev/null && test -x /usr/sbin/sshd && exit 0
source "$(dirname "$0")/../install_packages.sh"
install_packages openssh-client openssh-server
