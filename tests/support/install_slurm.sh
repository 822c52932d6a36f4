#!/usr/bin/env bash
# Installs Slurm and MUNGE on Debian and Ubuntu, if they are missing. No service is started.
set -euo pipefail
command -v srun >/dev/null && test -x /usr/sbin/slurmctld && test -x /usr/sbin/slurmd && test -x /usr/sbin/munged && exit 0
source "$(dirname "$0")/install_packages.sh"
install_packages slurm-wlm munge
