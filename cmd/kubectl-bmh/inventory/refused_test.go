// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"testing"
)

// TestRefused: what is no list of machines is called what it is, with what to do.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "the inventory is empty",
		"\n# nothing\n \n":                      "the inventory is empty",
		"---\n":                                 "the inventory is empty",
		"\xef\xbb\xbf":                          "the inventory is empty",
		"[]":                                    "the inventory is empty",
		"hosts: []\n":                           "the inventory is empty",
		"name,address\n":                        "the inventory is empty: it has a heading",
		"PK\x03\x04\x14\x00[Content_Types].xml": "an Excel workbook: save the sheet",
		"PK\x03\x04mimetypeapplication/vnd.oasis.opendocument.spreadsheet": "a spreadsheet of LibreOffice",
		"PK\x03\x04":                                      "a ZIP archive",
		"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00":            "an old Excel workbook",
		"\x1f\x8b\x08\x00":                                "compressed by gzip: pipe it: gunzip",
		"%PDF-1.7":                                        "a PDF document",
		"\x7fELF\x00":                                     "this is binary",
		"\x00\x01\x02":                                    "this is binary",
		"n\x00a\x00m\x00e\x00":                            "this is binary",
		"\xff\xfen":                                       "UTF-16 that was cut off",
		"name,address,password\nw,x,\xfc\n":               "line 2 is not UTF-8",
		"\n<!DOCTYPE html><html>":                         "an HTML page, perhaps the login page",
		"\xff\xfe<\x00h\x00t\x00m\x00l\x00":               "an HTML page",
		"<?xml version='1.0'?>":                           "this is XML",
		"$ANSIBLE_VAULT;1.1;AES256\n":                     "encrypted by Ansible Vault",
		"-----BEGIN PGP MESSAGE-----\n":                   "a key, a certificate or a message",
		"version https://git-lfs.github.com/spec/v1\n":    "a pointer of Git LFS",
		"#!/bin/sh\necho\n":                               "a script",
		"#cloud-config\nusers: []\n":                      "cloud-init",
		"name,address\n<<<<<<< HEAD\na,b\n":               "an unsolved conflict of git",
		"# ours\n[masters]\nm-0 ansible_host=192.0.2.1\n": "an inventory of Ansible",
		"m-0 ansible_host=192.0.2.1 ansible_user=x\n":     "an inventory of Ansible",
		"all:\n  children:\n    masters:\n      hosts:\n        m-0: {ansible_host: 192.0.2.1}\n": "an inventory of Ansible",
		"masters:\n  hosts:\n    m-0:\n":                                                                    "an inventory of Ansible",
		"- hosts: all\n  tasks: []\n":                                                                       "a playbook of Ansible",
		"apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\n":                                        "a kubeconfig: give it with --kubeconfig",
		"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n":                 "a kustomization",
		`{"kind":"Status","apiVersion":"v1","status":"Failure"}`:                                            "the error message of a Kubernetes server",
		"apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\n---\napiVersion: v1\nkind: Secret\n":          "this has Kubernetes objects (Cluster, Secret), and no BareMetalHost: kubectl apply -f",
		"apiVersion: v1beta1\nkind: AgentConfig\nhosts:\n- hostname: m-0\n":                                 "an agent-config",
		"apiVersion: v1\nbaseDomain: example.org\nplatform: {none: {}}\n":                                   "an install-config of OpenShift without",
		"hosts: ENC[AES256]\nsops: {}\n":                                                                    "encrypted by SOPS",
		"chassis:\n- nodes: []\n":                                                                           "a file for openstack baremetal create",
		`{"nodes":[{"pm_type":"ipmi","pm_addr":"192.0.2.1"}]}`:                                              "an instackenv.json of TripleO",
		`[{"UUID": "30d1ef1b-267c-4717-8acc-0301cbd7ccf7", "Name": "u12", "Provisioning State": "active"}]`: "what openstack baremetal node list has printed, which has no addresses of BMCs: make hosts of the nodes with kubectl bmh adopt",
		`{"uuid": "30d1ef1b-267c-4717-8acc-0301cbd7ccf7", "name": "u12", "driver": "redfish", "driver_info": {"redfish_address": "https://192.0.2.1", "redfish_password": "******"}, "provision_state": "active"}`:                     "what Ironic shows of nodes, without the passwords of their BMCs: make hosts of the nodes with kubectl bmh adopt",
		`{"nodes": [{"uuid": "30d1ef1b-267c-4717-8acc-0301cbd7ccf7", "name": "u12", "driver": "ipmi", "driver_info": {"ipmi_address": "192.0.2.1"}, "provision_state": "active"}]}`:                                                    "what Ironic shows of nodes",
		`[{"name": "u12", "driver": "ipmi", "driver_info": {"ipmi_address": "192.0.2.1"}, "provision_state": null}]`:                                                                                                                   "what Ironic shows of nodes",
		"---\nvm-1:\n  uuid: 30d1ef1b-267c-4717-8acc-0301cbd7ccf7\n  driver_info:\n    power: {ipmi_username: a, ipmi_password: S3cret, ipmi_address: 192.0.2.1}\n  nics:\n  - mac: 00:00:5e:00:53:01\n  driver: ipmi\n  name: vm-1\n": "an inventory of Bifrost: write its machines and their BMCs into a CSV file",
		`{"vm-1": {"uuid": "30d1ef1b-267c-4717-8acc-0301cbd7ccf7", "driver_info": {"power": {"ipmi_password": "S3cret"}}, "nics": [{"mac": "00:00:5e:00:53:01"}], "driver": "agent_ipmitool"}}`:                                        "an inventory of Bifrost",
		`[{"system_id": "4y3h7n", "hostname": "u12", "power_type": "ipmi", "power_state": "on", "cpu_count": 8, "status_name": "Ready", "tag_names": ["virtual"]}]`:                                                                    "a list of MAAS's machines, without the passwords of their BMCs: write the machines and their BMCs into a CSV file",
		`{"system_id": "4y3h7n", "hostname": "u12", "power_type": "ipmi"}`: "a list of MAAS's machines",
		"name,vendor,address,netmask\na,Dell,192.0.2.1,x\n":                `line 1: the names of columns 2 and 4 are those of no fields; kubectl bmh create --help lists them; remove the columns that are not needed`,
		"site: x\nracks: []\n":            "and no list of machines that is known",
		"- a\n- b\n":                      "and no list of machines that is known",
		"just text: here\n":               "and no list of machines that is known",
		"just text\n":                     "this is no heading",
		"w-0,ipmi://192.0.2.1,admin,pw\n": "line 1: this is no heading",
		"name,username,adress\nw-0,u,x\n": `line 1: the name of column 3 is that of no field`,
		// A CSV of Bifrost has no heading, and other files neither. Some of their values are names of fields: ipmi, ilo, user, server.
		"00:00:5e:00:53:01,root,S3cret,192.0.2.1,1,8192,512,Control,VM,a8cb6624-0d9f-c882-affc-046ebb96ec01,h-0,192.0.2.12,,,,,ipmi\n": "line 1: this is no heading",
		"n1;ilo;192.0.2.1;Administrator;S3cret\n":          "line 1: this is no heading",
		"server,192.0.2.1,user,S3cret,00:00:5e:00:53:01\n": "line 1: the names of columns 2, 4 and 5 are those of no fields",
		"name,adress\nw-0,x\n":                             "line 1: this is no heading",
		"name,address,bmc\n":                               `line 1: "bmc" is there twice: "address" means the same`,
		"name,address,iDRAC IP\n":                          `line 1: "iDRAC IP" is there twice: "address" means the same`,
		"#node,bmc,bmcport,taggedvlan,bmcid,username,password,comments,disable\n\"n1\",\"192.0.2.1\",,,,\"USERID\",\"S3cret\",,\n": "line 1: the names of columns 3, 4, 5, 8 and 9 are those of no fields",
		"# Our server, user pool 7\nn1,192.0.2.1,USERID,S3cret\n":                                                                  "line 2: this is no heading",
		"- name: [": "line 1: this is not valid YAML",
		"hosts:\n{% for h in hosts %}\n- name: {{ h }}\n": "it looks like a template",
		"hosts:\n\t- name: x\n":                           "line 2: this is not valid YAML (a tab",
		"{\n\"hosts\": [\n}":                              "line 3: this is not valid JSON",
		`{"hosts": [`:                                     "line 1: this is not valid JSON: it ends too early",
		strings.Repeat("[", 10_000):                       "line 1: this is not valid JSON: it is nested too deep",
	} {
		_, mistakes, err := Read([]byte(text), "metal3")
		if err != nil && strings.Contains(err.Error(), "S3cret") {
			t.Errorf("%.60q: the message has a password: %v", text, err)
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v (mistakes %v), want %q", text, err, mistakes, want)
		}
	}
	if _, _, err := Read(make([]byte, MaxSize+1), ""); err == nil {
		t.Error("a file of any size is read")
	}
}
