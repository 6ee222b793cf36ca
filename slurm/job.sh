# What the job scripts of this folder share; sourced by them, not run. Needs SLURM_JOB_ID and, for
# the guard, the program's own arguments.

# Exit codes of fathom that this file acts on (fathom --help lists all).
readonly fathom_stopped=75 fathom_lost_rank=5

# The first signal to this script, and the launcher that it is handed on to once there is one. Both
# launchers pass SIGUSR1 to every rank. SIGTERM comes when Slurm is about to kill: the ranks are then
# asked to stop too, since a launcher that got a SIGTERM itself would end them at once.
fathom_signal="" fathom_launcher=""
fathom_on_signal() {
  fathom_signal=${fathom_signal:-$1}
  [[ -z $fathom_launcher ]] || kill -USR1 "$fathom_launcher" 2>/dev/null
}
trap 'fathom_on_signal USR1' USR1
trap 'fathom_on_signal TERM' TERM

# The run folder that a training command writes to, as the program itself reads its arguments.
fathom_run_folder() {
  "$FATHOM" train "$@" --print-config | sed -n 's/^dir *= *//p' | head -n 1
}

# Notes in RUN/starts.log what this start finds, and refuses to go on when the last three starts of
# this job and this one found the same newest checkpoint: a run that dies before each save would
# otherwise be restarted for ever. Other jobs' starts do not count: those of a second submission to
# the folder, which is refused, have done nothing.
fathom_guard() {
  local run=$1 newest
  if [[ -z $run ]]; then
    echo "fathom: the program does not take these arguments (see above): not started." >&2
    exit 2
  fi
  mkdir -p "$run"
  newest=$(cat "$run/LATEST" 2>/dev/null || echo none)
  echo "$(date -u +%FT%TZ) job $SLURM_JOB_ID restart ${SLURM_RESTART_COUNT:-0} newest $newest" \
    >>"$run/starts.log"
  (($(grep -F " job $SLURM_JOB_ID restart " "$run/starts.log" | tail -n 4 | awk '{print $NF}' |
    grep -cxF "$newest") < 4)) && return
  echo "fathom: four starts in a row from the same checkpoint ($newest): not started again." >&2
  echo "fathom: see the log; remove $run/starts.log to try once more." >&2
  exit 1
}

# Puts the job back into the queue, under its number. A SIGTERM without a SIGUSR1 before it means that
# the job was cancelled, which must stay so, or that Slurm has put it back itself.
fathom_requeue() {
  if [[ $fathom_signal = TERM ]]; then
    echo "fathom: ended by Slurm; a cancelled job goes on when it is submitted again"
  else
    scontrol requeue "$SLURM_JOB_ID"
  fi
}

# Trains under srun with PMIx, each task on its own cores. The arguments are those of `fathom train`.
fathom_srun() {
  export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
  export OMPI_MCA_mpi_yield_when_idle=${FATHOM_YIELD:-0}
  if [[ -n ${FATHOM_INTERFACE:-} ]]; then
    if [[ ! -e /sys/class/net/$FATHOM_INTERFACE ]]; then
      echo "fathom: no network interface $FATHOM_INTERFACE here; there are: $(ls /sys/class/net | xargs)" >&2
      exit 2
    fi
    export OMPI_MCA_btl_tcp_if_include=$FATHOM_INTERFACE NCCL_SOCKET_IFNAME=$FATHOM_INTERFACE
  fi
  fathom_job srun --mpi=pmix --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores \
    --kill-on-bad-exit=0 "$FATHOM" train "$@"
}

# Starts the launcher (srun or mpirun) and its program, hands a signal to this script on to it, waits
# for its end, and puts the job back into the queue if there is more to do.
fathom_job() {
  local code
  if [[ -n $fathom_signal ]]; then
    fathom_requeue
    exit $fathom_stopped
  fi
  "$@" &
  fathom_launcher=$!
  # One that came before the launcher had a number has not reached it.
  [[ -z $fathom_signal ]] || kill -USR1 "$fathom_launcher" 2>/dev/null
  # A signal ends `wait`, but not the launcher; and where the launcher ended at the same time, the
  # code was the signal's, and the true one is still to be asked for.
  while :; do
    wait "$fathom_launcher"
    code=$?
    kill -0 "$fathom_launcher" 2>/dev/null || break
  done
  wait "$fathom_launcher"
  local last=$?
  ((last == 127)) || code=$last
  echo "fathom: $1 ended with code $code"
  # Stopped on request, a rank that was lost, or killed by a signal: the next start goes on from the
  # newest checkpoint. Anything else, a wrong recipe for example, would fail again.
  if ((code == fathom_stopped || code == fathom_lost_rank || code > 128)); then
    fathom_requeue
  fi
  exit "$code"
}
