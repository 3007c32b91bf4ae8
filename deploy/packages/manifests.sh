#!/bin/bash
# Renders the chart as plain manifests, for kubectl apply.
# usage: manifests.sh HELM DEPLOY, the directory that rbac/ and manifests/ are in
set -euo pipefail
helm=$1 to=$2
chart=$(dirname "$0")/../chart
# With the rights of evictions: dryRun in a rendered ConfigMap is edited by hand.
render() { "$helm" template evictd "$chart" --no-hooks --namespace evictd --set observe=false "$@" | grep -vE '^# Source: |helm.sh/chart: |managed-by: Helm'; }
mkdir -p "$to"/{rbac,manifests}
render --show-only templates/role.yaml >"$to/rbac/role.yaml"
render --show-only templates/policy.yaml >"$to/rbac/policy.yaml"
render --show-only templates/role.yaml --show-only templates/policy.yaml --set rbac.deletePods=true >"$to/rbac/delete-pods.yaml"
render --show-only templates/flowschema.yaml >"$to/rbac/flowschema.yaml"
render --show-only templates/node-conditions.yaml >"$to/rbac/node-conditions.yaml"
render --show-only templates/metrics.yaml --set config.metricsBindAddress=0.0.0.0:10269 >"$to/rbac/metrics.yaml"
{
	cat <<-NAMESPACE
		# The chart in deploy/chart with its default values, rendered by make manifests: kubectl apply --server-side -f FILE
		apiVersion: v1
		kind: Namespace
		metadata:
		  name: evictd
		  labels:
		    # The pods mount directories of the host and see its processes.
		    pod-security.kubernetes.io/enforce: privileged
	NAMESPACE
	render
} >"$to/manifests/evictd.yaml"
