package controller

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// IgnoreNotFound returns nil if err says that an object does not exist, and err otherwise.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
