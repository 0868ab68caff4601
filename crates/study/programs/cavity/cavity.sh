#!/bin/sh
# The lid-driven cavity of the study of 2021: OpenFOAM's icoFoam from t = 0.5 on, on a mesh that is decomposed for the
# ranks.
#
#   cavity.sh X Y STEP STEPS RANKS START...
#
# X times Y cells, steps of STEP seconds, and START is what starts the ranks: mpirun with its options. With adapters in
# $ADAPTERS, one a rank, the ranks have $LIBRARY in front of their libraries. Machines in $OTHERS get the decomposed mesh
# by ssh, and have OpenFOAM in the same place. It prints icoFoam's log, and at its end the
# seconds that START took by the clock on the wall:
#
#   cavity: cells 25600 ranks 2 steps 25 seconds 1.234
set -eu
[ $# -ge 6 ] || { echo "usage: cavity.sh X Y STEP STEPS RANKS START..." >&2; exit 2; }
x=$1 y=$2 step=$3 steps=$4 ranks=$5
shift 5
export WM_PROJECT_DIR="${WM_PROJECT_DIR:-/usr/share/openfoam}" # where Debian has it
command -v icoFoam > /dev/null || { echo "icoFoam is missing: install the package openfoam" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"; for other in ${OTHERS:-}; do ssh "$other" rm -rf "$work"; done' EXIT
cd "$work"
mkdir system constant 0.5

# dictionary PATH CLASS: its head, and the rest from standard input
dictionary() {
  printf 'FoamFile { version 2.0; format ascii; class %s; object %s; }\n' "$2" "${1##*/}" > "$1"
  cat >> "$1"
}

end=$(awk -v step="$step" -v steps="$steps" 'BEGIN { printf "%.12g", 0.5 + steps * step }')
dictionary system/controlDict dictionary << EOF
application icoFoam; startFrom startTime; startTime 0.5; stopAt endTime; endTime $end; deltaT $step;
writeControl timeStep; writeInterval 1000000; timeFormat general; timePrecision 12;
EOF
dictionary system/fvSchemes dictionary << EOF
ddtSchemes { default Euler; }
gradSchemes { default Gauss linear; }
divSchemes { default none; div(phi,U) Gauss linear; }
laplacianSchemes { default Gauss linear orthogonal; }
interpolationSchemes { default linear; }
snGradSchemes { default orthogonal; }
EOF
dictionary system/fvSolution dictionary << EOF
solvers {
  p { solver PCG; preconditioner DIC; tolerance 1e-06; relTol 0.05; }
  pFinal { solver PCG; preconditioner DIC; tolerance 1e-06; relTol 0; }
  U { solver smoothSolver; smoother symGaussSeidel; tolerance 1e-05; relTol 0; }
}
PISO { nCorrectors 2; nNonOrthogonalCorrectors 0; pRefCell 0; pRefValue 0; }
EOF
# Slices along the longer side; one more direction from four ranks on.
columns=$ranks rows=1
if [ "$ranks" -ge 4 ] && [ $((ranks % 2)) = 0 ]; then columns=$((ranks / 2)) rows=2; fi
dictionary system/decomposeParDict dictionary << EOF
numberOfSubdomains $ranks; method simple; simpleCoeffs { n ($columns $rows 1); delta 0.001; }
EOF
dictionary system/blockMeshDict dictionary << EOF
scale 0.1;
vertices ((0 0 0) (1 0 0) (1 1 0) (0 1 0) (0 0 0.1) (1 0 0.1) (1 1 0.1) (0 1 0.1));
blocks (hex (0 1 2 3 4 5 6 7) ($x $y 1) simpleGrading (1 1 1));
edges ();
boundary (
  movingWall { type wall; faces ((3 7 6 2)); }
  fixedWalls { type wall; faces ((0 4 7 3) (2 6 5 1) (1 5 4 0)); }
  frontAndBack { type empty; faces ((0 3 2 1) (4 5 6 7)); }
);
EOF
dictionary constant/transportProperties dictionary << EOF
nu [0 2 -1 0 0 0 0] 0.01;
EOF
dictionary 0.5/p volScalarField << EOF
dimensions [0 2 -2 0 0 0 0]; internalField uniform 0;
boundaryField { movingWall { type zeroGradient; } fixedWalls { type zeroGradient; } frontAndBack { type empty; } }
EOF
dictionary 0.5/U volVectorField << EOF
dimensions [0 1 -1 0 0 0 0]; internalField uniform (0 0 0);
boundaryField {
  movingWall { type fixedValue; value uniform (1 0 0); } fixedWalls { type noSlip; } frontAndBack { type empty; }
}
EOF

quietly() {
  "$@" > log.prepare 2>&1 || { cat log.prepare; exit 1; }
}
quietly blockMesh
parallel=
if [ "$ranks" -gt 1 ]; then
  quietly decomposePar
  parallel=-parallel
fi
cat > start << 'EOF'
if [ -n "${ADAPTERS:-}" ]; then
  set -- $ADAPTERS
  shift "$OMPI_COMM_WORLD_RANK"
  export VRDMA_ADAPTER="$1" LD_PRELOAD="$LIBRARY"
fi
EOF
echo "exec icoFoam $parallel" >> start
for other in ${OTHERS:-}; do
  tar -c . | ssh "$other" "mkdir -p $work && tar -x -C $work"
done
begin=$(date +%s.%N)
"$@" sh "$work/start" < /dev/null
end=$(date +%s.%N)
awk -v begin="$begin" -v end="$end" -v cells=$((x * y)) -v ranks="$ranks" -v steps="$steps" \
  'BEGIN { printf "cavity: cells %d ranks %d steps %d seconds %.3f\n", cells, ranks, steps, end - begin }'
