# Sourced by the install scripts of the test machines: defines install_packages NAME...

# Installs Debian packages without starting their services. Several test runs may call it at once.
install_packages() {
    command -v apt-get >/dev/null || { echo "apt-get is missing" >&2; return 1; }
    local policy=/usr/sbin/policy-rc.d made=
    (
        flock 9
        # invoke-rc.d asks this file whether it may start a service; a server on port 22 of this machine is not wanted.
        if ! test -e "$policy"; then
            made=yes
            printf '#!/bin/sh\nexit 101\n' >"$policy"
            chmod +x "$policy"
        fi
        trap 'test -z "$made" || rm -f "$policy"' EXIT
        export DEBIAN_FRONTEND=noninteractive
        local options=(-qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
        apt-get "${options[@]}" install "$@" >/dev/null 2>&1 && exit
        apt-get -qq -o DPkg::Lock::Timeout=120 update >/dev/null
        apt-get "${options[@]}" install "$@" >/dev/null
    ) 9<"${BASH_SOURCE[0]}"
}
