kubectl create namespace own --dry-run=client -o yaml | kubectl apply -f -
