#!/bin/sh
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs on a lab host, with a tar of text files as input: makes the host look as one with this driver and these GPUs.
# VERSION is that of the driver's libraries (none: no driver), DEVICES are the device files, DAEMONS those that run,
# PEERS the hosts of the IMEX domain, where this is in one. The device files are /dev/null by another name: opening them works.
set -e
lib=/usr/lib/$(uname -m)-linux-gnu
share=/usr/share/simulated-gpu
run=/run/simulated-gpu
[ ! -e $run/started ] || xargs -r kill -KILL <$run/started 2>/dev/null || true
mountpoint -q $run || { mkdir -p $run; mount -t tmpfs -o mode=755 simulated-gpu $run; }
mountpoint -q /proc/driver || mount -t tmpfs proc-driver /proc/driver
for tree in module class bus; do
  mountpoint -q /sys/$tree && umount /sys/$tree
  rm -rf "${run:?}/$tree" "$run/$tree.work"; mkdir -p $run/$tree $run/$tree.work
  mount -t overlay overlay -o lowerdir=/sys/$tree,upperdir=$run/$tree,workdir=$run/$tree.work /sys/$tree
done
find $run -maxdepth 1 -type f -delete
rm -rf /proc/driver/nvidia /dev/nvidia* "$lib"/libnvidia-ml.so* "$lib"/libcuda.so* /usr/bin/nvidia-smi /usr/bin/nvidia-imex*
tar -x -C / -f -
cp $share/query.txt $share/query.xml $run/
chmod 666 $run/cuda.log
cat /var/lib/dpkg/status.plain $run/packages >/var/lib/dpkg/status
[ -z "$VERSION" ] || {
  for name in libnvidia-ml libcuda; do
    cp "$share/$name.so" "$lib/$name.so.$VERSION"
    ln -s "$name.so.$VERSION" "$lib/$name.so.1"
  done
  cp $share/nvidia-smi /usr/bin/nvidia-smi
}
ldconfig
rm -rf /etc/nvidia-imex
[ -z "$PEERS" ] || {
  mkdir -p /etc/nvidia-imex
  # shellcheck disable=SC2086 # one line for each of them
  printf '%s\n' $PEERS >/etc/nvidia-imex/nodes_config.cfg
  printf 'SERVER_PORT=50000\nIMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg\n' >/etc/nvidia-imex/config.cfg
  ln -sf $share/imex.py /usr/bin/nvidia-imex
  ln -sf $share/imex.py /usr/bin/nvidia-imex-ctl
  grep -q '"nvidia-imex": "active"' $run/services.json && {
    setsid nvidia-imex </dev/null >/dev/null 2>&1 &
    echo $! >>$run/started
  }
}
rm -f /usr/bin/nvidia-persistenced /usr/bin/nv-fabricmanager /usr/bin/nvlsm
for daemon in $DAEMONS; do  # they do nothing, but they are there
  ln -s /usr/bin/sleep "/usr/bin/$daemon"
  setsid "$daemon" infinity </dev/null >/dev/null 2>&1 &
  echo $! >>$run/started
done
for device in $DEVICES; do
  mkdir -p "$(dirname "/dev/$device")"
  mknod -m 666 "/dev/$device" c 1 3
done
