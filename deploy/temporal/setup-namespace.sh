#!/bin/sh
# Make the namespace, keep closed workflows for 90 days, and register the search attributes. Repeating it changes nothing.
set -eu

namespace=${TEMPORAL_NAMESPACE:-default}
retention=90d

until temporal operator cluster health; do sleep 2; done

temporal operator namespace describe --namespace "$namespace" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$namespace" --retention "$retention"
temporal operator namespace update --namespace "$namespace" --retention "$retention"

known=$(temporal operator search-attribute list --namespace "$namespace")
for name in CallStatus ToolName Decision PolicyVersion ApprovalId AgentRunId; do
  echo "$known" | grep -qw "$name" ||
    temporal operator search-attribute create --namespace "$namespace" --name "$name" --type Keyword
done
